//! Gets Terraform's providers, before anything is compiled, because a machine may not reach them.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::{child, fingerprint::Fingerprint, prerequisites::Tools, terraform};
use gridpost_ops::{home::Home, progress::Progress};

/// Advice about a failed `init`, which usually could not get the providers.
const ADVICE: &str = "Terraform could not get the providers that infra/deploy/versions.tf names; nothing was compiled yet. \
    It asks registry.terraform.io, by the proxy that HTTPS_PROXY names. Where that can't be reached, \
    name a folder that mirrors it (made elsewhere by `terraform providers mirror FOLDER`): \
    export TF_CLI_ARGS_init=-plugin-dir=FOLDER; or a configuration that names a mirror: \
    export TF_CLI_CONFIG_FILE=FILE";

/// Gets the providers of `infra`, unless those of its lock file exist.
pub async fn get(
    tools: &Tools,
    infra: &Path,
    home: &Home,
    progress: &Progress,
) -> anyhow::Result<()> {
    let sources = Fingerprint::default().terraform_files(infra)?.value();
    // Written last, so an interrupted initialisation has none.
    let marker = home.terraform_data().join("complete");
    if fs::read_to_string(&marker).is_ok_and(|found| found == sources) {
        return Ok(());
    }
    let step = progress.step("Initialising Terraform");
    let root = infra.join(terraform::ROOT);
    let mut init = terraform::command(&tools.terraform, &root, &home.terraform_data(), "init");
    // A backend for AWS is not for the local stack.
    init.args(["-input=false", "-backend=false", "-no-color"]);
    let log = home.logs().join("terraform-init.log");
    child::run("terraform init", init, &log, |line| step.detail(line)).await.context(ADVICE)?;
    // The lock file may now have this platform's checksums.
    let sources = Fingerprint::default().terraform_files(infra)?.value();
    fs::write(&marker, sources)?;
    step.done("Initialised Terraform");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;
    use gridpost_ops::failure;

    #[tokio::test]
    async fn a_registry_that_cannot_be_reached_is_told_with_what_to_do() {
        let folder = tempfile::tempdir().expect("folder");
        let home = Home::at(&folder.path().join("home"));
        home.create().expect("created");
        let script = folder.path().join("terraform");
        fs::write(
            &script,
            "#!/bin/sh\necho 'could not connect to registry.terraform.io'; exit 1\n",
        )
        .expect("written");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).expect("executable");
        let nowhere = || PathBuf::from("/nonexistent");
        let tools = Tools { cargo: None, python: nowhere(), terraform: script };
        let failed = get(&tools, folder.path(), &home, &Progress::silent()).await;
        let message = failure::chain(&failed.expect_err("it fails"));
        for part in ["-plugin-dir=FOLDER", "TF_CLI_CONFIG_FILE", "could not connect"] {
            assert!(message.contains(part), "{part} in\n{message}");
        }
        assert!(!home.terraform_data().join("complete").exists());
    }
}
