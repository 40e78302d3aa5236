//! Which topic a request is for.

use percent_encoding::percent_decode_str;

/// Where a publish goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `POST /topics/{topic}/api/events`.
    Custom {
        /// The topic's name as it was given; it may be none that a topic can have.
        topic: String,
    },
    /// `POST /topics/{topic}:publish`.
    Namespace {
        /// The topic's name as it was given.
        topic: String,
    },
}

impl Route {
    /// The route of a request; `None` where nothing is served. What stands before `/topics` is the
    /// API's own: a stage, or an emulator's path to it.
    pub fn of(method: &str, path: &str) -> Option<Self> {
        if method != "POST" {
            return None;
        }
        let mut backwards =
            path.rsplit('/').map(|segment| percent_decode_str(segment).decode_utf8());
        let mut next = || backwards.next()?.ok();
        let last = next()?;
        if let Some(topic) = last.strip_suffix(":publish") {
            return (next()? == "topics").then(|| Self::Namespace { topic: topic.to_owned() });
        }
        let served = last == "events" && next()? == "api";
        let topic = next().filter(|_| served)?.into_owned();
        (next()? == "topics").then_some(Self::Custom { topic })
    }

    /// Its path, without what stands before `/topics`.
    pub fn resource(&self) -> String {
        match self {
            Self::Custom { topic } => format!("/topics/{topic}/api/events"),
            Self::Namespace { topic } => format!("/topics/{topic}:publish"),
        }
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        match self {
            Self::Custom { topic } | Self::Namespace { topic } => topic,
        }
    }
}

/// Whether a topic can have that name: 3 to 50 of `[A-Za-z0-9-]`. No other is looked up.
pub fn is_topic_name(name: &str) -> bool {
    (3..=50).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_table() {
        let custom = |topic: &str| Some(Route::Custom { topic: topic.to_owned() });
        let namespace = |topic: &str| Some(Route::Namespace { topic: topic.to_owned() });
        let table = [
            ("POST", "/topics/orders/api/events", custom("orders")),
            ("POST", "/_aws/execute-api/a1/$default/topics/orders/api/events", custom("orders")),
            ("POST", "/topics/topics/api/events", custom("topics")),
            ("POST", "/topics/api/api/events", custom("api")),
            ("POST", "/topics/t%C3%B3pic/api/events", custom("tópic")),
            ("POST", "/topics/or%64ers/%61pi/events", custom("orders")),
            ("POST", "/topics/orders:publish", namespace("orders")),
            ("POST", "/topics/orders%3Apublish", namespace("orders")),
            ("POST", "/topics/orders/api/events/", None),
            ("POST", "/topics/orders/api", None),
            ("POST", "/topics/api/events", None),
            ("POST", "/topic/orders/api/events", None),
            ("POST", "/topics/a/b:publish", None),
            ("POST", "/topics/%FF/api/events", None),
            ("POST", "/", None),
            ("POST", "", None),
            ("GET", "/topics/orders/api/events", None),
            ("OPTIONS", "/topics/orders/api/events", None),
        ];
        for (method, path, want) in table {
            assert_eq!(Route::of(method, path), want, "{method} {path}");
        }
    }

    #[test]
    fn topic_names() {
        let longest = "x".repeat(50);
        for name in ["abc", "A-9", "---", &longest] {
            assert!(is_topic_name(name), "{name}");
        }
        for name in ["", "ab", "a b", "a/b", "tópic", "a_b", "abc.", &format!("{longest}x")] {
            assert!(!is_topic_name(name), "{name}");
        }
    }
}
