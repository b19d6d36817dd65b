//! An OTLP receiver over gRPC that stands in for a collector.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint, metric::Data};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A receiver that keeps all exports.
pub(crate) struct OtlpReceiver {
    address: SocketAddr,
    received: Arc<ReceivedExports>,
    _runtime: Runtime,
}

/// The exports received so far.
#[derive(Default)]
struct ReceivedExports {
    traces: Mutex<Vec<ExportTraceServiceRequest>>,
    metrics: Mutex<Vec<ExportMetricsServiceRequest>>,
}

impl OtlpReceiver {
    pub(crate) fn start() -> Self {
        OtlpReceiver::start_at("127.0.0.1:0".parse().expect("an address"))
    }

    pub(crate) fn start_at(address: SocketAddr) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
        let listener = TcpListener::bind(address).expect("the port is free");
        listener.set_nonblocking(true).expect("set");
        let address = listener.local_addr().expect("bound");
        let received = Arc::<ReceivedExports>::default();
        let server = Server::builder()
            .add_service(TraceServiceServer::from_arc(Arc::clone(&received)))
            .add_service(MetricsServiceServer::from_arc(Arc::clone(&received)));
        runtime.spawn(async move {
            let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(listener).expect("a listener"));
            server.serve_with_incoming(incoming).await.expect("served");
        });
        OtlpReceiver { address, received, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns every span received.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let traces = self.received.traces.lock().unwrap_or_else(PoisonError::into_inner);
        let resources = traces.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| &scope.spans).cloned().collect()
    }

    /// Returns the points of a metric in its last export, by their attributes.
    pub(crate) fn points(&self, name: &str) -> Vec<(String, i64)> {
        let metrics = self.received.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let resources = metrics.last().into_iter().flat_map(|request| &request.resource_metrics);
        let all = resources.flat_map(|resource| &resource.scope_metrics).flat_map(|scope| &scope.metrics);
        let mut points: Vec<_> = all
            .filter(|metric| metric.name == name)
            .flat_map(points)
            .map(|point| (labels(point), value(point)))
            .collect();
        points.sort();
        points
    }

    /// Returns the resource attributes of metrics and traces.
    pub(crate) fn resources(&self) -> Vec<String> {
        let metrics = self.received.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let traces = self.received.traces.lock().unwrap_or_else(PoisonError::into_inner);
        let metrics = metrics.iter().flat_map(|request| &request.resource_metrics).map(|one| &one.resource);
        let traces = traces.iter().flat_map(|request| &request.resource_spans).map(|one| &one.resource);
        metrics.chain(traces).flatten().map(|resource| attributes_text(&resource.attributes)).collect()
    }

    /// Returns whether a text is anywhere in the exports.
    pub(crate) fn contains_text(&self, words: &str) -> bool {
        let metrics = self.received.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let traces = self.received.traces.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sent = metrics.iter().map(Message::encode_to_vec).chain(traces.iter().map(Message::encode_to_vec));
        sent.any(|bytes| bytes.windows(words.len()).any(|found| found == words.as_bytes()))
    }
}

/// Joins attributes, sorted by name.
pub(crate) fn attributes_text(attributes: &[KeyValue]) -> String {
    let mut all: Vec<_> =
        attributes.iter().map(|one| format!("{}={}", one.key, value_text(one.value.as_ref()))).collect();
    all.sort();
    all.join(" ")
}

fn value_text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn points(metric: &Metric) -> &[NumberDataPoint] {
    match &metric.data {
        Some(Data::Sum(sum)) => {
            assert!(sum.is_monotonic, "{}: what only grows is said to", metric.name);
            &sum.data_points
        }
        Some(Data::Gauge(gauge)) => &gauge.data_points,
        other => panic!("{}: neither a count nor a gauge: {other:?}", metric.name),
    }
}

fn labels(point: &NumberDataPoint) -> String {
    attributes_text(&point.attributes)
}

fn value(point: &NumberDataPoint) -> i64 {
    match point.value {
        Some(Number::AsInt(value)) => value,
        other => panic!("no whole number: {other:?}"),
    }
}

#[tonic::async_trait]
impl TraceService for ReceivedExports {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner).push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for ReceivedExports {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).push(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}
