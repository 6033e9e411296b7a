//! The tables against plain maps; when to look, by hand; and all of it in a simulated server.

mod by_hand;
mod simulation;
mod tables;
