//! The gRPC reflection service, which describes the fields of the rate limit service that this server uses.

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, MethodDescriptorProto, ServiceDescriptorProto,
};
use tonic_reflection::server::Builder;
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};

/// The reflection service.
pub(super) fn service() -> ServerReflectionServer<impl ServerReflection> {
    let files = FileDescriptorSet { file: vec![duration(), wrappers(), unit(), descriptor(), rls()] };
    let builder = Builder::configure().register_file_descriptor_set(files);
    let builder = builder.register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
    builder.build_v1().expect("every type is described")
}

const DURATION: &str = "google/protobuf/duration.proto";
const WRAPPERS: &str = "google/protobuf/wrappers.proto";
const UNIT: &str = "envoy/type/v3/ratelimit_unit.proto";
const DESCRIPTOR: &str = "envoy/extensions/common/ratelimit/v3/ratelimit.proto";

fn duration() -> FileDescriptorProto {
    let fields = [scalar("seconds", 1, Type::Int64), scalar("nanos", 2, Type::Int32)];
    file(DURATION, "google.protobuf", [message("Duration", fields)])
}

fn wrappers() -> FileDescriptorProto {
    file(WRAPPERS, "google.protobuf", [message("UInt64Value", [scalar("value", 1, Type::Uint64)])])
}

const UNITS: [(&str, i32); 7] =
    [("UNKNOWN", 0), ("SECOND", 1), ("MINUTE", 2), ("HOUR", 3), ("DAY", 4), ("MONTH", 5), ("YEAR", 6)];

fn unit() -> FileDescriptorProto {
    FileDescriptorProto { enum_type: vec![enumeration("RateLimitUnit", UNITS)], ..file(UNIT, "envoy.type.v3", []) }
}

fn descriptor() -> FileDescriptorProto {
    let entry = message("Entry", [scalar("key", 1, Type::String), scalar("value", 2, Type::String)]);
    let unit = typed("unit", 2, Type::Enum, ".envoy.type.v3.RateLimitUnit");
    let limit = message("RateLimitOverride", [scalar("requests_per_unit", 1, Type::Uint32), unit]);
    let within = ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor";
    let fields = [
        repeated(typed("entries", 1, Type::Message, &format!("{within}.Entry"))),
        typed("limit", 2, Type::Message, &format!("{within}.RateLimitOverride")),
        typed("hits_addend", 3, Type::Message, ".google.protobuf.UInt64Value"),
        scalar("is_negative_hits", 4, Type::Bool),
    ];
    let descriptor = DescriptorProto { nested_type: vec![entry, limit], ..message("RateLimitDescriptor", fields) };
    FileDescriptorProto {
        dependency: vec![UNIT.to_owned(), WRAPPERS.to_owned()],
        ..file(DESCRIPTOR, "envoy.extensions.common.ratelimit.v3", [descriptor])
    }
}

fn rls() -> FileDescriptorProto {
    let within = ".envoy.service.ratelimit.v3.RateLimitResponse";
    let request = message(
        "RateLimitRequest",
        [
            scalar("domain", 1, Type::String),
            repeated(typed(
                "descriptors",
                2,
                Type::Message,
                ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor",
            )),
            scalar("hits_addend", 3, Type::Uint32),
        ],
    );
    let unit = typed("unit", 2, Type::Enum, &format!("{within}.RateLimit.Unit"));
    let limit =
        message("RateLimit", [scalar("name", 3, Type::String), scalar("requests_per_unit", 1, Type::Uint32), unit]);
    let units = UNITS.into_iter().chain([("WEEK", 7)]);
    let limit = DescriptorProto { enum_type: vec![enumeration("Unit", units)], ..limit };
    let status = message(
        "DescriptorStatus",
        [
            typed("code", 1, Type::Enum, &format!("{within}.Code")),
            typed("current_limit", 2, Type::Message, &format!("{within}.RateLimit")),
            scalar("limit_remaining", 3, Type::Uint32),
            typed("duration_until_reset", 4, Type::Message, ".google.protobuf.Duration"),
        ],
    );
    let fields = [
        typed("overall_code", 1, Type::Enum, &format!("{within}.Code")),
        repeated(typed("statuses", 2, Type::Message, &format!("{within}.DescriptorStatus"))),
    ];
    let response = DescriptorProto {
        nested_type: vec![limit, status],
        enum_type: vec![enumeration("Code", [("UNKNOWN", 0), ("OK", 1), ("OVER_LIMIT", 2)])],
        ..message("RateLimitResponse", fields)
    };
    let method = MethodDescriptorProto {
        name: Some("ShouldRateLimit".to_owned()),
        input_type: Some(".envoy.service.ratelimit.v3.RateLimitRequest".to_owned()),
        output_type: Some(within.to_owned()),
        ..Default::default()
    };
    let service =
        ServiceDescriptorProto { name: Some("RateLimitService".to_owned()), method: vec![method], options: None };
    FileDescriptorProto {
        dependency: vec![DESCRIPTOR.to_owned(), DURATION.to_owned()],
        service: vec![service],
        ..file("envoy/service/ratelimit/v3/rls.proto", "envoy.service.ratelimit.v3", [request, response])
    }
}

fn file(name: &str, package: &str, messages: impl Into<Vec<DescriptorProto>>) -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some(name.to_owned()),
        package: Some(package.to_owned()),
        message_type: messages.into(),
        syntax: Some("proto3".to_owned()),
        ..Default::default()
    }
}

fn message(name: &str, fields: impl Into<Vec<FieldDescriptorProto>>) -> DescriptorProto {
    DescriptorProto { name: Some(name.to_owned()), field: fields.into(), ..Default::default() }
}

fn scalar(name: &str, number: i32, kind: Type) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(kind.into()),
        ..Default::default()
    }
}

/// A field of a message or enum type.
fn typed(name: &str, number: i32, kind: Type, named: &str) -> FieldDescriptorProto {
    FieldDescriptorProto { type_name: Some(named.to_owned()), ..scalar(name, number, kind) }
}

fn repeated(field: FieldDescriptorProto) -> FieldDescriptorProto {
    FieldDescriptorProto { label: Some(Label::Repeated.into()), ..field }
}

fn enumeration<'a>(name: &str, values: impl IntoIterator<Item = (&'a str, i32)>) -> EnumDescriptorProto {
    let value = |(name, number): (&str, i32)| EnumValueDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        ..Default::default()
    };
    EnumDescriptorProto {
        name: Some(name.to_owned()),
        value: values.into_iter().map(value).collect(),
        ..Default::default()
    }
}
