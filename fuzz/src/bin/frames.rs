//! See the target of that name.
#![cfg_attr(fuzzing, no_main)]

tidegate_fuzz::fuzz!(frames);
