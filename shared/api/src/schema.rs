//! What documents are made of, and their schemas: each is derived from its type.

use std::{borrow::Cow, fmt};

use gridpost_core::{
    delivery::{probe, redrive},
    event, poison,
    retry::{self, health, profile},
    subscription::{self, authentication, filter::advanced},
    time::Timestamp,
    topic,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use strum::VariantNames;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ArrayBuilder, KnownFormat, ObjectBuilder, Ref, RefOr, Schema, SchemaFormat, schema::Type,
    },
};

/// A point in time as documents have it: ISO 8601 with milliseconds, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Timestamp);

impl Time {
    /// Reads a date and time of RFC 3339.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Timestamp::parse_rfc_3339(text).map(Self)
    }
}

impl From<Timestamp> for Time {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.to_iso_8601())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not a date and time of RFC 3339"))
    }
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).into()
    }
}

impl ToSchema for Time {}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    pub value: Vec<T>,
    /// The URL of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_link: Option<String>,
}

impl<T: ToSchema> PartialSchema for List<T> {
    fn schema() -> RefOr<Schema> {
        let elements = ArrayBuilder::new().items(Ref::from_schema_name(T::name()));
        let link = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::Custom("uri".to_owned())))
            .description(Some("Where the next page is."));
        ObjectBuilder::new()
            .property("value", elements)
            .required("value")
            .property("nextLink", link)
            .into()
    }
}

impl<T: ToSchema> ToSchema for List<T> {
    fn name() -> Cow<'static, str> {
        format!("{}List", T::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}

/// Types that stand for enums of the core in schemas: each is one of the names of its variants.
macro_rules! names {
    ($($name:ident of $module:ident;)*) => {
        pub(crate) mod names {
            use super::*;

            $(
            #[doc = concat!("Stands for the core's `", stringify!($name), "`.")]
            #[derive(Debug)]
            pub(crate) enum $name {}

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    let names = <super::$module::$name as VariantNames>::VARIANTS.iter().copied();
                    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).into()
                }
            }

            impl ToSchema for $name {}
        )*}
    };
}

names! {
    DelayReason of retry;
    DeliverySchema of event;
    InputSchema of topic;
    JobPhase of redrive;
    JobStatus of redrive;
    Kind of topic;
    Operator of advanced;
    ProbationPolicy of health;
    ProfileName of profile;
    ProvisioningState of subscription;
    ResendTarget of poison;
    SigningAlgorithm of authentication;
    Step of probe;
    StepResult of probe;
}

/// Types that stand for texts and numbers with bounds in schemas of lists.
macro_rules! bounded {
    ($module:ident: $type:ident, $($name:ident: $least:ident($min:literal) $(, $most:ident($max:literal))?;)*) => {
        pub(crate) mod $module {
            use super::*;

            $(
                #[doc = concat!("Stands for a bounded value: ", stringify!($name), ".")]
                #[derive(Debug)]
                pub(crate) enum $name {}

                impl PartialSchema for $name {
                    fn schema() -> RefOr<Schema> {
                        let schema = ObjectBuilder::new().schema_type(Type::$type);
                        schema.$least(Some($min))$(.$most(Some($max)))?.into()
                    }
                }

                impl ToSchema for $name {}
            )*
        }
    };
}

bounded! {
    texts: String,
    EventType: min_length(1), max_length(512);
    Label: min_length(1), max_length(256);
}

bounded! {
    numbers: Integer,
    ScheduleStep: minimum(1), maximum(604_800);
}
