"""What release/build packs, out of small files that take the programs' places.

    python3 -m unittest discover -s release -p '*_test.py'
"""

import base64
import hashlib
import json
import re
import subprocess
import tarfile
import tempfile
import unittest
import zipfile
from io import BytesIO
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = ["ingest", "intake", "expand", "dispatch", "dispatch-resources", "dead-letter", "redrive", "manage", "wake"]


class Release(unittest.TestCase):
    """Both architectures, packed twice."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        for program in PROGRAMS:
            (cls.root / "programs" / program).mkdir(parents=True)
            (cls.root / "programs" / program / "bootstrap").write_bytes(program.encode() * 1_000)
        (cls.root / "gridpost").write_bytes(b"the command line")
        for out in ("first", "second"):
            cls.told = cls.build("--out", str(cls.root / out))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def build(cls, *arguments):
        """Packs; what came of it."""
        given = ["--programs", str(cls.root / "programs"), "--cli", str(cls.root / "gridpost")]
        return subprocess.run([HERE / "build", *given, *arguments], capture_output=True, text=True, check=False)

    def test_everything_is_there_and_the_sums_are_right(self):
        self.assertEqual(self.told.returncode, 0, self.told.stderr)
        names = sorted(path.name for path in (self.root / "first").iterdir())
        version = names[1].removeprefix("gridpost-").removesuffix("-aarch64-unknown-linux-gnu.tar.gz")
        self.assertEqual(
            names,
            [
                "SHA256SUMS",
                f"gridpost-{version}-aarch64-unknown-linux-gnu.tar.gz",
                f"gridpost-{version}-x86_64-unknown-linux-gnu.tar.gz",
                f"gridpost-{version}.cdx.json",
                f"gridpost-functions-{version}-arm64.tar.gz",
                f"gridpost-functions-{version}-x86_64.tar.gz",
                f"gridpost-infra-{version}.tar.gz",
            ],
        )
        checked = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=self.root / "first", check=True, capture_output=True)
        self.assertEqual(checked.stdout.count(b": OK"), 6)

    def test_the_same_sources_give_the_same_bytes(self):
        sums = [(self.root / out / "SHA256SUMS").read_text() for out in ("first", "second")]
        self.assertEqual(*sums)

    def test_the_module_can_use_what_is_packed(self):
        (path,) = (self.root / "first").glob("gridpost-functions-*-arm64.tar.gz")
        with tarfile.open(path) as archive:
            files = {Path(one.name).name: archive.extractfile(one).read() for one in archive.getmembers()}
        release = json.loads(files.pop("release.json"))
        self.assertEqual(sorted(files), sorted(f"{program}.zip" for program in PROGRAMS))
        self.assertEqual(release["architecture"], "arm64")
        self.assertTrue(release["key_prefix"].endswith("/arm64/"))
        for program in PROGRAMS:
            content = files[f"{program}.zip"]
            self.assertEqual(release["sha256"][program], base64.b64encode(hashlib.sha256(content).digest()).decode())
            with zipfile.ZipFile(BytesIO(content)) as archive:
                (info,) = archive.infolist()
                self.assertEqual((info.filename, info.external_attr >> 16 & 0o777), ("bootstrap", 0o755))
                self.assertEqual(archive.read("bootstrap"), program.encode() * 1_000)

    def test_programs_are_taken_out_of_the_zips_that_cargo_lambda_makes(self):
        programs = self.root / "zipped"
        for program in PROGRAMS:
            (programs / program).mkdir(parents=True)
            with zipfile.ZipFile(programs / program / "bootstrap.zip", "w") as archive:
                archive.writestr("bootstrap", program.encode() * 1_000)
        told = self.build("--programs", str(programs), "--out", str(self.root / "of-zips"))
        self.assertEqual(told.returncode, 0, told.stderr)
        sums = [(self.root / out / "SHA256SUMS").read_text() for out in ("first", "of-zips")]
        self.assertEqual(*sums)

    def test_the_module_is_packed_without_tests_and_without_what_terraform_leaves(self):
        (path,) = (self.root / "first").glob("gridpost-infra-*.tar.gz")
        with tarfile.open(path) as archive:
            names = [name.split("/", 1)[1] for name in archive.getnames()]
        wanted = [
            "deploy/main.tf", "deploy/.terraform.lock.hcl", "examples/complete/main.tf", "versions.tf", "README.md",
            "modules/function/main.tf", "modules/verify/webhook.py", "deployer-policy.json", "LICENSE-MIT",
        ]
        self.assertEqual([name for name in wanted if name not in names], [])
        strange = [
            name for name in names
            if name.startswith("tests/") or ".terraform/" in name or "tfstate" in name or name == "reference.py"
        ]
        self.assertEqual(strange, [])

    def test_the_image_copies_what_the_archives_have(self):
        copied = re.findall(r"\$\{TARGETPLATFORM\}/(\S+)", (HERE / "Dockerfile").read_text())
        self.assertIn("gridpost", copied)
        archives = list((self.root / "first").glob("gridpost-*-unknown-linux-gnu.tar.gz"))
        self.assertEqual(len(archives), 2)
        for path in archives:
            with tarfile.open(path) as archive:
                self.assertEqual(set(copied), set(archive.getnames()))
                self.assertEqual(archive.getmember("gridpost").mode, 0o755)

    def test_the_bill_names_what_is_linked_and_not_what_tests_use(self):
        (path,) = (self.root / "first").glob("*.cdx.json")
        bill = json.loads(path.read_text())
        components = {component["name"]: component for component in bill["components"]}
        for name in ["gridpost-ingest", "tokio", "rustls", "aws-sdk-sqs", "clap"]:
            self.assertIn(name, components)
        for name in ["proptest", "gridpost-testkit", "gridpost-tests"]:
            self.assertNotIn(name, components)
        self.assertEqual(len(components["tokio"]["hashes"][0]["content"]), 64)
        references = {component["bom-ref"] for component in bill["components"]} | {"gridpost"}
        for dependency in bill["dependencies"]:
            self.assertLessEqual({dependency["ref"], *dependency["dependsOn"]}, references)

    def test_what_can_not_be_packed_is_refused(self):
        for arguments, reason in [
            (["--out", str(self.root / "first")], "is not empty"),
            (["--out", str(self.root / "tagged"), "--tag", "v9.9.9"], "the tag is v9.9.9"),
            (["--out", str(self.root / "none"), "--programs", str(self.root)], "does not exist"),
        ]:
            told = self.build(*arguments)
            self.assertEqual(told.returncode, 1)
            self.assertIn(reason, told.stderr)


if __name__ == "__main__":
    unittest.main()
