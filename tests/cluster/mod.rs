//! Clusters: three masters and three replicas each.

mod down;
mod faults;
mod limits;
mod moves;
mod slots;
