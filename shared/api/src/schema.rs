//! The parts that documents share, and helpers for the schemas derived from types.

use std::{borrow::Cow, fmt, str::FromStr};

use gridpost_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_with::{DeserializeFromStr, SerializeDisplay};
use strum::VariantNames;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        AllOfBuilder, ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, Ref, RefOr, Schema,
        SchemaFormat,
        schema::{AnyOfBuilder, SchemaType, Type},
    },
};

/// A point in time as documents have it: ISO 8601 with milliseconds, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, SerializeDisplay, DeserializeFromStr)]
pub struct Time(pub Timestamp);

impl FromStr for Time {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        Timestamp::parse_rfc_3339(text).map(Self).ok_or("not a date and time of RFC 3339")
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

/// Returns the schema of settings as a read shows them: these members are always there.
pub(crate) fn shown<T: ToSchema>(always: &[&str]) -> RefOr<Schema> {
    let always = always.iter().fold(ObjectBuilder::new(), |object, name| object.required(*name));
    AllOfBuilder::new().item(Ref::from_schema_name(T::name())).item(always).into()
}

/// Types that stand for others in schemas.
pub mod stand_in {
    use gridpost_core::{
        delivery::{probe, redrive},
        event, journal, poison, retry, subscription, topic,
    };

    use super::*;

    macro_rules! stand_ins {
        ($($name:ident = $schema:expr $(, with $type:ty)?;)*) => {$(
            #[doc = concat!("Stands for `", stringify!($name), "`.")]
            #[derive(Debug)]
            pub enum $name {}

            impl utoipa::PartialSchema for $name {
                fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                    $schema.into()
                }
            }

            impl utoipa::ToSchema for $name {
                $(fn schemas(
                    schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>,
                ) {
                    <$type>::schemas(schemas);
                })?
            }
        )*};
    }
    pub(crate) use stand_ins;

    stand_ins! {
        DelayReason = one_of::<retry::DelayReason>();
        DeliverySchema = one_of::<event::DeliverySchema>();
        EntryKind = one_of::<journal::EntryKind>();
        InputSchema = one_of::<topic::InputSchema>();
        JobPhase = one_of::<redrive::JobPhase>();
        JobStatus = one_of::<redrive::JobStatus>();
        JournalBy = one_of::<journal::By>();
        JournalStep = one_of::<journal::Step>();
        Kind = one_of::<topic::Kind>();
        Operator = one_of::<subscription::filter::advanced::Operator>();
        Outcome = one_of::<retry::outcome::Outcome>();
        ProbationPolicy = one_of::<retry::health::ProbationPolicy>();
        ProfileName = one_of::<retry::profile::ProfileName>();
        ProvisioningState = one_of::<subscription::ProvisioningState>();
        ResendTarget = one_of::<poison::ResendTarget>();
        SigningAlgorithm = one_of::<subscription::authentication::SigningAlgorithm>();
        Step = one_of::<probe::Step>();
        StepResult = one_of::<probe::StepResult>();
        EventType = of(Type::String).min_length(Some(1)).max_length(Some(512));
        Label = of(Type::String).min_length(Some(1)).max_length(Some(256));
        ScheduleStep = of(Type::Integer).minimum(Some(1)).maximum(Some(604_800));
        Succeeded = of(Type::String).enum_values(Some(["Succeeded"]));
        True = of(Type::Boolean).enum_values(Some([true]));
        Bound = of(SchemaType::from_iter([Type::Integer, Type::Null]));
        NumberOrFlag = of(SchemaType::from_iter([Type::Number, Type::Boolean]));
    }

    fn of(schema_type: impl Into<SchemaType>) -> ObjectBuilder {
        ObjectBuilder::new().schema_type(schema_type)
    }

    /// Returns the schema of the names of an enum.
    fn one_of<T: VariantNames>() -> ObjectBuilder {
        of(Type::String).enum_values(Some(T::VARIANTS.iter().copied()))
    }

    /// Returns the schema of a request that has either `all` or some of those other members.
    pub(crate) fn all_or<T: ToSchema>(others: &[&str]) -> AllOfBuilder {
        let having = |name: &str| ObjectBuilder::new().required(name);
        let some = others.iter().fold(AnyOfBuilder::new(), |any, name| any.item(having(name)));
        let choice = OneOfBuilder::new().item(having("all")).item(some);
        AllOfBuilder::new().item(T::schema()).item(choice)
    }
}
