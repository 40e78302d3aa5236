//! Adds the invocation's trace to every call to AWS: Lambda detects recursive loops by it.
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

/// Adds the trace to a client's calls.
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
            // A trace that can't be a header is not Lambda's.
            let _ = context.request_mut().headers_mut().try_insert("x-amzn-trace-id", trace);
        }
        Ok(())
    }
}
