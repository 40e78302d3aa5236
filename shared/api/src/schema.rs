//! What documents are made of, and their schemas: each is derived from its type.

use std::{borrow::Cow, fmt};

use gridpost_core::time::Timestamp;
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
        let at = Timestamp::parse_rfc_3339(&text).map(Self);
        at.ok_or_else(|| D::Error::custom("not a date and time of RFC 3339"))
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

/// The schema of a name: one of those of the type's variants.
pub(crate) fn names<T: VariantNames>() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(T::VARIANTS.iter().copied()))
}

/// The schema of an id.
pub(crate) fn uuid() -> ObjectBuilder {
    let format = SchemaFormat::Custom("uuid".to_owned());
    ObjectBuilder::new().schema_type(Type::String).format(Some(format))
}
