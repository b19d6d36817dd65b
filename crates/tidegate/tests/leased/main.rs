//! Quota that a process takes in batches, promise by promise, on a clock that only moves when it is told to.

mod denials;
mod errors;
mod passing;
mod refills;
mod returns;
mod support;
