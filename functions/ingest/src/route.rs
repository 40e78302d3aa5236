//! Finds the topic that a request is for.

/// The route of a publish. The topic's name is unchecked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `POST /topics/{topic}/api/events`.
    Custom { topic: String },
    /// `POST /topics/{topic}:publish`.
    Namespace { topic: String },
}

impl Route {
    /// Returns the route of a request, or `None` for any other path.
    ///
    /// The path must be exact: API Gateway's authorizer has checked this path, and an IAM policy
    /// that names topics would miss another spelling. So nothing may stand before `/topics`, and
    /// nothing is decoded but the colon of `:publish`.
    pub fn of(method: &str, path: &str) -> Option<Self> {
        if method != "POST" {
            return None;
        }
        let rest = path.strip_prefix("/topics/")?;
        if let Some(topic) = rest.strip_suffix("/api/events") {
            return is_segment(topic).then(|| Self::Custom { topic: topic.to_owned() });
        }
        let topic =
            COLONS.iter().find_map(|colon| rest.strip_suffix("publish")?.strip_suffix(colon))?;
        is_segment(topic).then(|| Self::Namespace { topic: topic.to_owned() })
    }

    /// Whether API Gateway, if there is one, matched the same route.
    pub fn is_matched_by(&self, route: Option<&str>) -> bool {
        let own = match self {
            Self::Custom { .. } => "POST /topics/{topic}/api/events",
            Self::Namespace { .. } => "POST /topics/{topic}",
        };
        route.is_none_or(|route| route == own)
    }

    /// The path.
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

const COLONS: [&str; 3] = [":", "%3A", "%3a"];

fn is_segment(text: &str) -> bool {
    !text.contains('/')
}

/// Whether a topic can have that name: 3 to 50 of `[A-Za-z0-9-]`.
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
            ("POST", "/topics/topics/api/events", custom("topics")),
            ("POST", "/topics/api/api/events", custom("api")),
            ("POST", "/topics/t%C3%B3pic/api/events", custom("t%C3%B3pic")),
            ("POST", "/topics/or%64ers/api/events", custom("or%64ers")),
            ("POST", "/topics/orders:publish", namespace("orders")),
            ("POST", "/topics/orders%3Apublish", namespace("orders")),
            ("POST", "/topics/orders%3apublish", namespace("orders")),
            // What stands before it, or is decoded, would be another path to IAM.
            ("POST", "/prod/topics/orders/api/events", None),
            ("POST", "/topics/own/topics/orders/api/events", None),
            ("POST", "//topics/orders/api/events", None),
            ("POST", "/topics/own/topics/orders:publish", None),
            ("POST", "/topics/orders/%61pi/events", None),
            ("POST", "/%74opics/orders/api/events", None),
            ("POST", "/topics/orders%3Apubli%73h", None),
            ("POST", "/topics/orders/api/events/", None),
            ("POST", "/topics/orders/api", None),
            ("POST", "/topics/api/events", None),
            ("POST", "/topic/orders/api/events", None),
            ("POST", "/topics/a/b:publish", None),
            ("POST", "topics/orders/api/events", None),
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
    fn the_route_is_the_one_that_was_matched() {
        let (custom, namespace) = ("POST /topics/{topic}/api/events", "POST /topics/{topic}");
        let table = [
            ("/topics/orders/api/events", None, true),
            ("/topics/orders/api/events", Some(custom), true),
            ("/topics/orders/api/events", Some(namespace), false),
            ("/topics/orders:publish", Some(namespace), true),
            ("/topics/orders:publish", Some(custom), false),
            ("/topics/orders:publish", Some("$default"), false),
        ];
        for (path, matched, want) in table {
            let route = Route::of("POST", path).expect(path);
            assert_eq!(route.is_matched_by(matched), want, "{path} {matched:?}");
        }
        let terraform = include_str!("../../../infra/publish_api.tf");
        for route in [custom, namespace] {
            assert!(terraform.contains(&format!("\"{route}\"")), "{route}");
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
