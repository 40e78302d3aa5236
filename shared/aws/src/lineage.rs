//! The invocation's trace on every call to AWS: Lambda finds functions that send in circles by it.
//!
//! The SDK reads it from the environment, where [`gridpost_runtime::lambda`] does not put it.

use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        interceptors::{Intercept, context::BeforeTransmitInterceptorContextMut},
        runtime_components::RuntimeComponents,
    },
};
use aws_smithy_types::config_bag::ConfigBag;
use gridpost_runtime::lineage;

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
        if let Some(trace) = lineage::current() {
            // One that can't be a header is none of Lambda's.
            let _ = context.request_mut().headers_mut().try_insert("x-amzn-trace-id", trace);
        }
        Ok(())
    }
}
