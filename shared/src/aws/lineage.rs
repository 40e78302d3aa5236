//! The invocation's trace on every call to AWS: Lambda finds functions that send in circles by it.
//!
//! The SDK reads it from the environment, where [`crate::lambda`] does not put it.

use std::sync::RwLock;

use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        interceptors::{Intercept, context::BeforeTransmitInterceptorContextMut},
        runtime_components::RuntimeComponents,
    },
};
use aws_smithy_types::config_bag::ConfigBag;

/// Of the invocation that runs now: a sandbox has one at a time.
static CURRENT: RwLock<Option<String>> = RwLock::new(None);

/// Notes the trace of the invocation that begins, as Lambda gave it.
pub fn begin(trace: Option<&str>) {
    *CURRENT.write().expect("no panic while held") = trace.map(str::to_owned);
}

/// Puts the trace into a client's calls.
#[derive(Clone, Copy, Debug)]
pub struct Lineage;

impl Intercept for Lineage {
    fn name(&self) -> &'static str {
        "Lineage"
    }

    fn modify_before_signing(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(trace) = &*CURRENT.read().expect("no panic while held") {
            // One that can't be a header is none of Lambda's.
            let _ =
                context.request_mut().headers_mut().try_insert("x-amzn-trace-id", trace.clone());
        }
        Ok(())
    }
}
