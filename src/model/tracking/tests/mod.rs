//! Tests of tracking: the tables against plain maps, the timer by hand, and the whole model in a simulated server.

mod by_hand;
mod simulation;
mod tables;
