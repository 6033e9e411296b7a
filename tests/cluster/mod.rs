//! Clusters: three masters and three replicas each.

mod down;
mod faults;
mod moves;
mod slots;
