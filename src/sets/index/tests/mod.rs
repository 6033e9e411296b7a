//! Tests of tracking.

mod by_hand;
mod simulation;
mod tables;
