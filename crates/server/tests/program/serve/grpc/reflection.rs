//! gRPC reflection, as grpcurl uses it.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorProto};
use tonic::Status;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use super::{GrpcServer, channel};
use crate::serve::program::Program;

async fn send(program: &Program, request: MessageRequest) -> Result<MessageResponse, Status> {
    let mut client = ServerReflectionClient::new(channel(program).await);
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let mut answers = client.server_reflection_info(futures_util::stream::iter([request])).await?.into_inner();
    Ok(answers.message().await?.and_then(|answer| answer.message_response).expect("an answer"))
}

/// The names of the services.
pub(super) async fn list_services(program: &Program) -> Result<BTreeSet<String>, Status> {
    match send(program, MessageRequest::ListServices(String::new())).await? {
        MessageResponse::ListServicesResponse(services) => {
            Ok(services.service.into_iter().map(|service| service.name).collect())
        }
        other => panic!("{other:?}"),
    }
}

async fn describe_files(program: &Program, request: MessageRequest) -> Vec<FileDescriptorProto> {
    match send(program, request).await.unwrap() {
        MessageResponse::FileDescriptorResponse(files) => {
            let decode = |file: &Vec<u8>| FileDescriptorProto::decode(&**file).expect("a file");
            files.file_descriptor_proto.iter().map(decode).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_services_are_listed() {
    let server = GrpcServer::start("list").await;
    let expected =
        ["envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"];
    assert_eq!(list_services(&server.program).await.unwrap(), expected.map(str::to_owned).into());
}

#[tokio::test]
async fn the_rate_limit_service_is_described_with_its_types() {
    let server = GrpcServer::start("describe").await;
    let symbol = MessageRequest::FileContainingSymbol("envoy.service.ratelimit.v3.RateLimitService".to_owned());
    let mut wanted = describe_files(&server.program, symbol).await;
    let mut found: BTreeMap<String, FileDescriptorProto> = BTreeMap::new();
    while let Some(file) = wanted.pop() {
        for name in file.dependency.iter().filter(|name| !found.contains_key(*name)) {
            wanted.extend(describe_files(&server.program, MessageRequest::FileByFilename(name.clone())).await);
        }
        found.insert(file.name().to_owned(), file);
    }
    let service = &found["envoy/service/ratelimit/v3/rls.proto"].service[0];
    assert_eq!((service.name(), service.method[0].name()), ("RateLimitService", "ShouldRateLimit"));

    // Every type that is named is there, with the numbers that are on the wire.
    let mut messages: BTreeMap<String, DescriptorProto> = BTreeMap::new();
    let mut enums = BTreeSet::new();
    for file in found.values() {
        let package = format!(".{}", file.package());
        enums.extend(file.enum_type.iter().map(|one| format!("{package}.{}", one.name())));
        file.message_type.iter().for_each(|one| add_message(&package, one, &mut messages, &mut enums));
    }
    for (name, message) in &messages {
        for field in message.field.iter().filter(|field| field.type_name.is_some()) {
            let named = field.type_name();
            assert!(messages.contains_key(named) || enums.contains(named), "{name}.{}: {named}", field.name());
        }
    }
    let numbers = |name: &str| {
        let fields = messages[name].field.iter().map(|field| (field.number(), field.name().to_owned()));
        fields.collect::<BTreeMap<_, _>>()
    };
    let expect = |names: &[&str]| (1..).zip(names.iter().map(|name| (*name).to_owned())).collect::<BTreeMap<i32, _>>();
    let common = ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor";
    let response = ".envoy.service.ratelimit.v3.RateLimitResponse";
    for (message, fields) in [
        (".envoy.service.ratelimit.v3.RateLimitRequest", &["domain", "descriptors", "hits_addend"][..]),
        (common, &["entries", "limit", "hits_addend", "is_negative_hits"]),
        (&format!("{common}.Entry"), &["key", "value"]),
        (&format!("{common}.RateLimitOverride"), &["requests_per_unit", "unit"]),
        (response, &["overall_code", "statuses"]),
        (&format!("{response}.RateLimit"), &["requests_per_unit", "unit", "name"]),
        (
            &format!("{response}.DescriptorStatus"),
            &["code", "current_limit", "limit_remaining", "duration_until_reset"],
        ),
    ] {
        assert_eq!(numbers(message), expect(fields), "{message}");
    }
}

fn add_message(
    above: &str,
    message: &DescriptorProto,
    messages: &mut BTreeMap<String, DescriptorProto>,
    enums: &mut BTreeSet<String>,
) {
    let name = format!("{above}.{}", message.name());
    enums.extend(message.enum_type.iter().map(|one| format!("{name}.{}", one.name())));
    message.nested_type.iter().for_each(|one| add_message(&name, one, messages, enums));
    messages.insert(name, message.clone());
}
