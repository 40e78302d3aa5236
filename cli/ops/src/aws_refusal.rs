//! Refusals of AWS's services, and what follows from them.

use anyhow::bail;
use serde::Deserialize;
use serde_json::Value;

/// A call that the service refused.
#[derive(Debug, thiserror::Error)]
#[error("{call} was refused: {code}: {message}{}", self.hint())]
pub struct AwsRefusal {
    /// The operation with its service, which is also the permission for it: `logs:FilterLogEvents`.
    pub call: String,
    /// The service's code, such as `AccessDeniedException`.
    pub code: String,
    pub message: String,
}

impl AwsRefusal {
    /// Whether the identity lacks a permission.
    pub fn is_denied(&self) -> bool {
        matches!(self.code.as_str(), "AccessDeniedException" | "AccessDenied")
    }

    fn hint(&self) -> String {
        match self.is_denied() {
            true => format!("; your AWS identity needs the permission {}", self.call),
            false => String::new(),
        }
    }
}

/// Reads `{"__type":"ns#Code","message":…}`, the code of a header, XML, or whatever came instead.
pub(crate) fn refusal(call: String, status: u16, kind: Option<&str>, text: &str) -> AwsRefusal {
    if text.trim_start().starts_with("<ErrorResponse") {
        return xml_refusal(call, status, text);
    }
    let document: Value = serde_json::from_str(text).unwrap_or_default();
    let member = |names: &[&str]| {
        names.iter().find_map(|name| document.get(*name).and_then(Value::as_str)).map(str::to_owned)
    };
    // The header may have a URL behind its code.
    let kind = kind.map(|kind| kind.split(':').next().unwrap_or_default().to_owned());
    let code = member(&["__type", "code"]).or(kind).unwrap_or_else(|| format!("HTTP {status}"));
    let code = code.rsplit(['#', '.']).next().unwrap_or_default().to_owned();
    let message = member(&["message", "Message"]);
    AwsRefusal { call, code, message: message.unwrap_or_else(|| text.chars().take(300).collect()) }
}

/// Reads `<ErrorResponse><Error>`, or whatever came instead.
pub(crate) fn xml_refusal(call: String, status: u16, text: &str) -> AwsRefusal {
    #[derive(Deserialize)]
    struct Response {
        #[serde(rename = "Error")]
        error: Problem,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Problem {
        code: String,
        message: String,
    }
    match quick_xml::de::from_str(text) {
        Ok(Response { error: Problem { code, message } }) => AwsRefusal { call, code, message },
        Err(_) => {
            let message = text.chars().take(300).collect();
            AwsRefusal { call, code: format!("HTTP {status}"), message }
        }
    }
}

pub(crate) fn asks_to_wait(error: &anyhow::Error) -> bool {
    error.downcast_ref::<AwsRefusal>().is_some_and(|refusal| {
        let code = refusal.code.as_str();
        code.contains("Throttl")
            || code.contains("TooManyRequests")
            || matches!(code, "ServiceUnavailable" | "ServiceUnavailableException")
    })
}

/// Bails with what is wrong where a call was refused for what it names, `None` where that is not there.
pub fn if_found(answer: anyhow::Result<Value>) -> anyhow::Result<Option<Value>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => match error.downcast_ref::<AwsRefusal>() {
            Some(refusal) if refusal.code == "ResourceNotFoundException" => Ok(None),
            _ => bail!(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_read_whatever_they_look_like() {
        for (status, kind, text, want) in [
            (
                400,
                None,
                r#"{"__type":"com.amazonaws.logs#ThrottlingException","message":"Rate exceeded"}"#,
                "ThrottlingException: Rate exceeded",
            ),
            (
                400,
                None,
                r#"{"__type":"AccessDeniedException","Message":"no"}"#,
                "AccessDeniedException: no; your AWS identity needs the permission logs:F",
            ),
            (
                400,
                Some("QueueDoesNotExist"),
                r#"{"__type":"AWS.SimpleQueueService.NonExistentQueue","message":"gone"}"#,
                "NonExistentQueue: gone",
            ),
            (
                404,
                Some("ResourceNotFoundException:http://internal.amazon.com/coral/"),
                r#"{"Type":"User","Message":"Function not found"}"#,
                "ResourceNotFoundException: Function not found",
            ),
            (
                403,
                None,
                "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>",
                "AccessDenied: no; your AWS identity needs the permission logs:F",
            ),
            (404, None, "", "HTTP 404: "),
            (502, None, "<html>", "HTTP 502: <html>"),
        ] {
            let refusal = refusal("logs:F".to_owned(), status, kind, text);
            assert_eq!(refusal.to_string(), format!("logs:F was refused: {want}"));
            let waits = text.contains("Throttl");
            assert_eq!(asks_to_wait(&refusal.into()), waits, "{text}");
        }
    }
}
