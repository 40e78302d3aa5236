//! A value that changes when anything deployed changes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use sha2::{Digest, Sha256};

/// Collects parts, each after its length, so that they can't run into each other.
#[derive(Default)]
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// Adds a text.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.part(text.as_bytes());
        self
    }

    /// Adds a file's content.
    pub fn file(mut self, path: &Path) -> anyhow::Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        self.part(&bytes);
        Ok(self)
    }

    /// Adds all files that Terraform reads below `folder`, with their paths.
    pub fn terraform_files(mut self, folder: &Path) -> anyhow::Result<Self> {
        for path in terraform_files(folder)? {
            let name = path.strip_prefix(folder).unwrap_or(&path);
            self = self.text(&name.to_string_lossy()).file(&path)?;
        }
        Ok(self)
    }

    /// Returns the value, in hexadecimal.
    pub fn value(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn part(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }
}

/// Lists configuration, variable files and the lock file, sorted, without tests and examples.
fn terraform_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && name != "tests" && name != "examples" {
                found.extend(terraform_files(&path)?);
            }
        } else if [".tf", ".tf.json", ".tfvars", ".tfvars.json", ".tftpl", ".lock.hcl", ".json"]
            .iter()
            .any(|ending| name.ends_with(ending))
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        let of = |a: &str, b: &str| Fingerprint::default().text(a).text(b).value();
        assert_eq!(of("ab", "c"), of("ab", "c"));
        assert_ne!(of("ab", "c"), of("a", "bc"));
    }

    #[test]
    fn only_what_terraform_deploys_counts() {
        let folder = tempfile::tempdir().expect("folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            fs::write(path, text).expect("written");
        };
        let value = || {
            let files = Fingerprint::default().terraform_files(folder.path());
            files.expect("readable").value()
        };
        write("main.tf", "a");
        write("modules/function/main.tf", "b");
        let before = value();
        for ignored in ["README.md", "tests/x.tftest.hcl", ".terraform/x.tf", "examples/a/main.tf"]
        {
            write(ignored, "c");
            assert_eq!(value(), before, "{ignored}");
        }
        for counted in ["modules/function/main.tf", "new.tf", ".terraform.lock.hcl"] {
            let before = value();
            write(counted, "changed");
            assert_ne!(value(), before, "{counted}");
        }
    }
}
