//! Reads the profiles of the AWS configuration.

use std::env;
use std::iter::successors;

use aws_config::profile::{self, Profile, ProfileFileLoadError, ProfileSet};
use aws_types::os_shim_internal::{Env, Fs};

/// The profile that counts where none is named.
pub(super) const DEFAULT: &str = "default";

/// Returns a variable of the environment. A blank one counts as none.
pub fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Returns the name of the profile that counts: `named`, or the environment's.
pub(super) fn name(named: Option<&str>) -> String {
    let named = named.filter(|name| !name.trim().is_empty()).map(str::to_owned);
    named.or_else(|| variable("AWS_PROFILE")).unwrap_or_else(|| DEFAULT.to_owned())
}

/// Reads the profiles of both files. `name` is the selected one.
pub(super) async fn read(name: &str) -> Result<ProfileSet, ProfileFileLoadError> {
    let (fs, env, files) = (Fs::real(), Env::real(), Default::default());
    // Boxed: callers' futures, which hold it, would be nested too deeply for the compiler.
    Box::pin(profile::load(&fs, &env, &files, Some(name.to_owned().into()))).await
}

/// Returns the region of the environment, else that of the profile or of its sources.
pub(super) fn region(profiles: Option<&ProfileSet>) -> Option<String> {
    let of_environment = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(variable);
    let mut chain = profiles.into_iter().flat_map(chain);
    of_environment.or_else(|| {
        let found = chain.find_map(|it| it.get("region").filter(|region| !region.is_empty()));
        found.map(str::to_owned)
    })
}

/// Returns the selected profile, and those whose credentials it uses.
pub(super) fn chain(profiles: &ProfileSet) -> impl Iterator<Item = &Profile> {
    let source = |profile: &&Profile| profiles.get_profile(profile.get("source_profile")?);
    // After as many steps as there are profiles the chain is a circle.
    successors(profiles.get_profile(profiles.selected_profile()), source)
        .take(profiles.profiles().count())
}
