//! The section `zeitset` of INFO: the version, then the fields of each family of commands.

use crate::config;
use crate::server::info::Info;

/// Adds a family's fields to the section.
pub type Report = fn(Info<'_>);

pub fn report(info: Info<'_>, families: &[Report]) {
    info.section(c"");
    info.text(c"version", config::VERSION);
    families.iter().for_each(|family| family(info));
}
