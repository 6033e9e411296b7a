//! The files of the repository: layers, versions, packages, and the image.

mod architecture;
mod container;
mod native;
mod need;
mod package;
mod pairs;
mod published;
mod refused;
mod shell;
mod versions;
mod workflows;

pub use architecture::sources;
