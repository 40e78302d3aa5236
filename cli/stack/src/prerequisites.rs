//! Finds what must be installed: Python and Terraform, and to compile also Cargo and a C compiler.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::bail;
use serde_json::Value;

use crate::child;

/// The `Requires-Python` of the emulator's packages.
const PYTHON_MIN: Version = Version(3, 10);
/// The infrastructure's `required_version`.
const TERRAFORM_MIN: Version = Version(1, 9);

/// The tools, all new enough.
#[derive(Clone, Debug)]
pub struct Tools {
    pub cargo: Option<PathBuf>,
    /// A Python with the modules `venv` and `ensurepip`.
    pub python: PathBuf,
    pub terraform: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32);

impl Version {
    /// Reads the first two numbers of a version such as `1.11.4` or `3.13.0rc1`.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('.');
        let number = |part: &str| {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..digits].parse().ok()
        };
        Some(Self(number(parts.next()?)?, number(parts.next()?)?))
    }
}

/// Finds the tools, with compilers if needed. Fails with all that are missing or too old, and how to install
/// them.
pub async fn find(compiles: bool) -> anyhow::Result<Tools> {
    if !cfg!(target_os = "linux") {
        bail!(
            "the local stack runs the functions as the Linux programs that AWS Lambda runs: start it on Linux \
             (on Windows in WSL 2, on macOS in a Linux virtual machine). The other commands work here."
        );
    }
    let cargo = PathBuf::from(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let (python, terraform) = (Path::new("python3"), Path::new("terraform"));
    let compiler = PathBuf::from(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    let compilers = async {
        match compiles {
            true => [check_version(&cargo, CARGO).await, check_version(&compiler, COMPILER).await],
            false => [Ok(()), Ok(())],
        }
    };
    let found = tokio::join!(compilers, check_python(python), check_terraform(terraform));
    let found = found.0.into_iter().chain([found.1, found.2]);
    let missing: Vec<String> = found.filter_map(Result::err).collect();
    if !missing.is_empty() {
        bail!("missing on this machine:\n{}", missing.join("\n"));
    }
    let cargo = compiles.then_some(cargo);
    Ok(Tools { cargo, python: python.to_owned(), terraform: terraform.to_owned() })
}

/// Finds Python only.
pub async fn find_python() -> anyhow::Result<PathBuf> {
    let python = PathBuf::from("python3");
    match check_python(&python).await {
        Ok(()) => Ok(python),
        Err(missing) => bail!("missing on this machine:\n{missing}"),
    }
}

const CARGO: &str = "  Cargo: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh";

/// AWS-LC is compiled from C, and Rust links with the compiler.
const COMPILER: &str = "  a C compiler: sudo apt-get install build-essential (Debian, Ubuntu), \
                        sudo dnf install gcc (Fedora)";

/// Checks that a program says its version. Otherwise `install` is the error.
async fn check_version(program: &Path, install: &str) -> Result<(), String> {
    output_of(program, &["--version"]).await.map(drop).ok_or_else(|| install.to_owned())
}

async fn check_python(python: &Path) -> Result<(), String> {
    let Version(major, minor) = PYTHON_MIN;
    let install = "sudo apt-get install python3 python3-venv (Debian, Ubuntu), sudo dnf install python3 (Fedora)";
    let Some(version) =
        output_of(python, &["-c", "import platform; print(platform.python_version())"]).await
    else {
        return Err(format!("  Python {major}.{minor} or newer: {install}"));
    };
    if Version::parse(&version).is_none_or(|found| found < PYTHON_MIN) {
        let version = version.trim();
        return Err(format!("  Python {major}.{minor} or newer (python3 is {version}): {install}"));
    }
    match output_of(python, &["-c", "import venv, ensurepip"]).await {
        Some(_) => Ok(()),
        None => Err("  Python's venv module: sudo apt-get install python3-venv".to_owned()),
    }
}

async fn check_terraform(terraform: &Path) -> Result<(), String> {
    let Version(major, minor) = TERRAFORM_MIN;
    let install = "sudo snap install terraform --classic, brew install hashicorp/tap/terraform, or \
                   https://developer.hashicorp.com/terraform/install";
    let Some(answer) = output_of(terraform, &["version", "-json"]).await else {
        return Err(format!("  Terraform {major}.{minor} or newer: {install}"));
    };
    let version = terraform_version(&answer).unwrap_or_default();
    if Version::parse(&version).is_none_or(|found| found < TERRAFORM_MIN) {
        return Err(format!(
            "  Terraform {major}.{minor} or newer (terraform is {version}): {install}"
        ));
    }
    Ok(())
}

fn terraform_version(answer: &str) -> Option<String> {
    let document: Value = serde_json::from_str(answer).ok()?;
    document.get("terraform_version")?.as_str().map(str::to_owned)
}

/// Returns what a tool prints, if it runs and succeeds.
async fn output_of(program: &Path, arguments: &[&str]) -> Option<String> {
    let output = child::command(program).args(arguments).output().await.ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        for (text, minimum, want) in [
            ("1.11.4", TERRAFORM_MIN, true),
            ("1.9.0", TERRAFORM_MIN, true),
            ("1.8.5", TERRAFORM_MIN, false),
            ("0.15.0", TERRAFORM_MIN, false),
            ("2.0.0-beta1", TERRAFORM_MIN, true),
            ("3.10.0", PYTHON_MIN, true),
            ("3.9.18\n", PYTHON_MIN, false),
            ("3.13.0rc1", PYTHON_MIN, true),
        ] {
            assert_eq!(
                Version::parse(text).map(|version| version >= minimum),
                Some(want),
                "{text}"
            );
        }
        assert_eq!(Version::parse("unknown"), None);
    }

    #[test]
    fn terraforms_version_is_read_from_its_json() {
        let answer = r#"{"terraform_version":"1.11.4","platform":"linux_amd64"}"#;
        assert_eq!(terraform_version(answer).as_deref(), Some("1.11.4"));
        assert_eq!(terraform_version("Terraform v1.11.4"), None);
    }
}
