//! The files of the repository: layers, versions, and the packages and the image that are made of them.

mod architecture;
mod container;
mod native;
mod need;
mod package;
mod versions;
mod workflows;

pub use architecture::sources;
