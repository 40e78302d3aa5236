//! Settings of the functions, read once from the environment.
