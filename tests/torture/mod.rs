//! All that is random or takes its time: clocks, neighbours, losses, hostile input, everything at once. `make torture` does it for longer.

mod clocks;
mod fuzz;
mod idle;
mod losses;
mod neighbour;
mod soak;
