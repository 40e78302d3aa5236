//! Parts that `verify` and the prober share: a publisher of one topic, and a webhook as a
//! destination.

use anyhow::Context;
use gridpost_api::{
    subscription::{Destination, WebHook},
    topic::Topic,
};
use gridpost_core::{secret::Secret, topic::InputSchema};
use reqwest::Response;

use crate::{
    failure::Refusal,
    manage_api::ManageApi,
    publish::{content_type, events_url, input_schema},
    target::Target,
};

/// Publishes to one topic with its first access key.
pub(crate) struct Publisher {
    http: reqwest::Client,
    url: String,
    key: Secret,
    pub(crate) schema: InputSchema,
}

impl Publisher {
    pub(crate) async fn connect(
        topic: &Topic,
        api: &ManageApi,
        target: &Target,
    ) -> anyhow::Result<Self> {
        let url = events_url(&topic.name, Some(topic), target)?;
        let key = api.keys(&topic.name).await?.key1;
        Ok(Self { http: target.http_client(&url)?, url, key, schema: input_schema(topic) })
    }

    /// Publishes a body. Fails with [`Refusal`] unless the status of the answer is 200.
    pub(crate) async fn publish(&self, body: String) -> anyhow::Result<Response> {
        let request = self.http.post(&self.url).header("aeg-sas-key", self.key.expose());
        let content_type = content_type(self.schema, body.as_bytes());
        let answer = request.header("content-type", content_type).body(body).send().await;
        let answer = answer.with_context(|| format!("POST {} got no answer", self.url))?;
        match answer.status().as_u16() {
            200 => Ok(answer),
            status => {
                let text = answer.text().await.unwrap_or_default();
                Err(Refusal::from_answer(status, &text).into())
            }
        }
    }
}

/// Returns why a publish was refused, if repeating it is of no use: the request itself is wrong.
pub(crate) fn final_refusal(error: &anyhow::Error) -> Option<&Refusal> {
    error.downcast_ref::<Refusal>().filter(|refusal| (400..429).contains(&refusal.status))
}

pub(crate) fn webhook(url: &str) -> Destination {
    let endpoint_url = Some(Secret::new(url));
    Destination::WebHook(Box::new(WebHook { endpoint_url, ..WebHook::default() }))
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_publish_is_repeated_unless_the_request_is_wrong() {
        for (status, want) in [(400, true), (401, true), (413, true), (429, false), (503, false)] {
            let refused = Refusal::from_answer(status, "{}").into();
            assert_eq!(final_refusal(&refused).is_some(), want, "{status}");
        }
        assert!(final_refusal(&anyhow!("no answer")).is_none());
    }
}
