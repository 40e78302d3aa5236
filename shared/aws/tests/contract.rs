//! The ports on AWS against replayed responses: failed entries and conditions, throttled calls, lists with
//! pages. The SDK's clients are real. Responses have the form of the services' API references.

#[path = "contract/configuration.rs"]
mod configuration;
#[cfg(feature = "journal")]
#[path = "contract/logs.rs"]
mod logs;
#[cfg(feature = "s3")]
#[path = "contract/objects.rs"]
mod objects;
#[path = "contract/pages.rs"]
mod pages;
#[path = "contract/queues.rs"]
mod queues;
#[path = "contract/replay.rs"]
mod replay;
#[path = "contract/tables.rs"]
mod tables;
