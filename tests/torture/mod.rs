//! Random and long tests: clocks, neighbours, losses, hostile input, and all families at the same time. `make torture`
//! runs them for longer.

mod clocks;
mod fuzz;
mod idle;
mod losses;
mod neighbour;
mod soak;
