//! ZEXP: sets whose members expire, command by command.

mod add;
mod adopt;
mod cap;
mod data;
mod errors;
mod expire;
mod pop;
mod read;
mod tag;
mod transparent;
