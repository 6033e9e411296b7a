//! The files of the repository: layers, versions, and the packages that are made of them.

mod architecture;
mod package;
mod versions;
