//! The resource API: its documents as types, how they are read with every problem and its path, how they
//! are written, and the schemas that `docs/openapi.json` has of them.

pub mod client;
pub mod dead_letter;
pub mod delivery;
pub mod document;
pub mod error;
pub mod health;
pub mod journal;
pub mod redrive;
pub mod requests;
pub mod schema;
pub mod settings;
pub mod subscription;
pub mod token;
pub mod topic;
pub mod trial;
pub mod waiting;
