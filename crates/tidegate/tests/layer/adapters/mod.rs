//! The adapter suite of `tidegate_testkit`, for the tower layer.

mod axum;
mod hyper;
