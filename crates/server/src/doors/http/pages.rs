//! Expensive pages, rendered on the background thread once for all waiting requests.

use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use axum::Extension;
use axum::body::Body as RoutedBody;
use axum::response::{IntoResponse, IntoResponseParts, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::RETRY_AFTER;
use http_body::{Body, Frame, SizeHint};
use tidegate::api::Problem;
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot};
use tokio::task::yield_now;

use crate::app::App;
use crate::net::buffer_budget::{BufferBudget, SharedCharge};
use crate::net::http_server::SharedBytes;
use crate::runtime::TimeSlice;

/// How many requests may wait for one page; further ones are refused. All that wait on one HTTP/2 connection have room.
const MAX_WAITING: usize = 256;

/// When a refused client should ask again, in seconds.
const RETRY_AFTER_SECONDS: u32 = 1;

/// How many bytes of pages may wait for clients that read slowly, if the budget has room. Beyond that, the oldest page is withdrawn.
const MAX_UNREAD_BYTES: usize = 64 << 20;

/// The size of a piece of a page, and of the largest part that is appended to one.
const PIECE_BYTES: usize = 16 << 10;
const PART_BYTES: usize = 1 << 10;

/// Renders pages on the background thread, one at a time.
pub(super) struct PageRenderer {
    app: Arc<App>,
    background: Handle,
    /// Locked while a page is rendered. The lock is fair, so each page has its turn, even if another page is requested
    /// all the time.
    unread: Arc<AsyncMutex<UnreadPages>>,
}

impl PageRenderer {
    pub(super) fn new(app: &Arc<App>, background: &Handle) -> Self {
        let unread = Arc::new(AsyncMutex::new(UnreadPages::new(&app.buffers)));
        PageRenderer { app: Arc::clone(app), background: background.clone(), unread }
    }
}

/// A page that is rendered once for all requests with the same query that wait for it.
///
/// There is no cache: a rendering begins after each of its requests, so a response is never older than its request.
pub(super) struct SharedPage<Q>(Arc<WaitingRequests<Q>>);

impl<Q> Clone for SharedPage<Q> {
    fn clone(&self) -> Self {
        SharedPage(Arc::clone(&self.0))
    }
}

impl<Q: PartialEq + Send + 'static> SharedPage<Q> {
    pub(super) fn new<R, F>(renderer: &PageRenderer, render: R) -> Self
    where
        R: Fn(Arc<App>, Q, PageWriter) -> F + Send + 'static,
        F: Future<Output = PageWriter> + Send + 'static,
    {
        let waiting = Arc::new(WaitingRequests::default());
        let (app, unread) = (Arc::clone(&renderer.app), Arc::clone(&renderer.unread));
        let render = move |query| render(Arc::clone(&app), query, PageWriter::new());
        renderer.background.spawn(render_requested(Arc::clone(&waiting), unread, render));
        SharedPage(waiting)
    }

    /// Responds with the page as it is now, or with a problem.
    pub(super) async fn respond(self, query: Q, headers: impl IntoResponseParts) -> Response {
        match self.get(query).await {
            Ok(page) => (Extension(SharedBytes), headers, RoutedBody::new(PageBody::new(page))).into_response(),
            Err(error) => error.into_response(),
        }
    }

    async fn get(&self, query: Q) -> Result<Arc<Page>, PageError> {
        let (reply, page) = oneshot::channel();
        self.0.add(PageRequest { query, reply })?;
        page.await.map_err(|_| PageError::Failed)
    }
}

/// Why there is no page.
#[derive(Debug)]
enum PageError {
    /// Too many requests wait for it.
    Busy,
    /// Its rendering has panicked.
    Failed,
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        match self {
            PageError::Busy => {
                let detail = "too many requests wait for this page: try again later";
                let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail);
                ([(RETRY_AFTER, RETRY_AFTER_SECONDS)], problem).into_response()
            }
            PageError::Failed => Problem::internal("the page could not be rendered").into_response(),
        }
    }
}

struct PageRequest<Q> {
    query: Q,
    reply: oneshot::Sender<Arc<Page>>,
}

/// The requests for a page whose rendering has not begun.
struct WaitingRequests<Q> {
    requests: Mutex<Vec<PageRequest<Q>>>,
    arrived: Notify,
}

impl<Q> Default for WaitingRequests<Q> {
    fn default() -> Self {
        WaitingRequests { requests: Mutex::default(), arrived: Notify::new() }
    }
}

impl<Q: PartialEq> WaitingRequests<Q> {
    fn add(&self, request: PageRequest<Q>) -> Result<(), PageError> {
        let mut requests = self.requests();
        if requests.len() >= MAX_WAITING {
            requests.retain(|request| !request.reply.is_closed());
        }
        if requests.len() >= MAX_WAITING {
            return Err(PageError::Busy);
        }
        requests.push(request);
        drop(requests);
        self.arrived.notify_one();
        Ok(())
    }

    /// Takes the first query, with the replies to all requests for it.
    fn take_first(&self) -> Option<(Q, Vec<oneshot::Sender<Arc<Page>>>)> {
        let mut requests = self.requests();
        requests.retain(|request| !request.reply.is_closed());
        let mut first = None;
        for request in mem::take(&mut *requests) {
            match &mut first {
                None => first = Some((request.query, vec![request.reply])),
                Some((query, replies)) if *query == request.query => replies.push(request.reply),
                Some(_) => requests.push(request),
            }
        }
        first
    }

    fn requests(&self) -> MutexGuard<'_, Vec<PageRequest<Q>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renders a page whenever requests wait for it, for ever.
async fn render_requested<Q, R, F>(waiting: Arc<WaitingRequests<Q>>, unread: Arc<AsyncMutex<UnreadPages>>, render: R)
where
    Q: PartialEq,
    R: Fn(Q) -> F,
    F: Future<Output = PageWriter> + Send + 'static,
{
    loop {
        waiting.arrived.notified().await;
        loop {
            let mut unread = unread.lock().await;
            let Some((query, replies)) = waiting.take_first() else { break };
            // In a task of its own, so that a panic fails only these requests: their replies are dropped.
            let Ok(page) = tokio::spawn(finish(render(query))).await else { continue };
            unread.add(&page);
            for reply in replies {
                // The client may have gone.
                let _ = reply.send(Arc::clone(&page));
            }
        }
    }
}

async fn finish(rendering: impl Future<Output = PageWriter>) -> Arc<Page> {
    let mut writer = rendering.await;
    writer.slice.pause().await;
    writer.pieces.push(writer.piece.into());
    Arc::new(Page::new(writer.pieces))
}

/// A page while it is rendered.
pub(super) struct PageWriter {
    pieces: Vec<Bytes>,
    piece: Vec<u8>,
    slice: TimeSlice,
}

impl PageWriter {
    fn new() -> Self {
        PageWriter { pieces: Vec::new(), piece: Vec::new(), slice: TimeSlice::begin() }
    }

    /// Returns the piece to append a short part to, and pauses between pieces if that is due.
    pub(super) async fn piece(&mut self) -> &mut Vec<u8> {
        if self.piece.len() > PIECE_BYTES - PART_BYTES {
            let full = mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
            self.pieces.push(full.into());
            self.slice.pause_if_due().await;
        }
        &mut self.piece
    }

    /// Appends a part of any length.
    pub(super) async fn write(&mut self, long: &[u8]) {
        for part in long.chunks(PART_BYTES) {
            self.piece().await.extend_from_slice(part);
        }
    }

    /// Returns the slice, for work that writes nothing yet.
    pub(super) fn slice(&mut self) -> &mut TimeSlice {
        &mut self.slice
    }
}

/// A rendered page, which all its responses share.
struct Page {
    content: Mutex<PageContent>,
    bytes: usize,
}

/// The content of a page, empty once it is withdrawn.
#[derive(Default)]
struct PageContent {
    /// Each has its own allocation, so a piece on its way to a client does not keep the others.
    pieces: Vec<Bytes>,
    /// `None` until responses have the page.
    charge: Option<SharedCharge>,
}

impl Page {
    fn new(pieces: Vec<Bytes>) -> Self {
        let bytes = pieces.iter().map(Bytes::len).sum();
        Page { content: Mutex::new(PageContent { pieces, charge: None }), bytes }
    }

    fn piece(&self, index: usize) -> Option<Bytes> {
        self.content().pieces.get(index).cloned()
    }

    /// Frees the page. Responses that are not sent yet end with an error.
    fn withdraw(&self) {
        *self.content() = PageContent::default();
    }

    fn content(&self) -> MutexGuard<'_, PageContent> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pages that responses still have.
struct UnreadPages {
    budget: Arc<BufferBudget>,
    max_bytes: usize,
    /// The oldest first.
    pages: VecDeque<Weak<Page>>,
}

impl UnreadPages {
    fn new(budget: &Arc<BufferBudget>) -> Self {
        let max_bytes = budget.max_shared().min(MAX_UNREAD_BYTES);
        UnreadPages { budget: Arc::clone(budget), max_bytes, pages: VecDeque::new() }
    }

    /// Adds a page, and withdraws the oldest others as far as all are too large together.
    fn add(&mut self, page: &Arc<Page>) {
        self.pages.push_back(Arc::downgrade(page));
        let mut bytes = 0;
        self.pages.retain(|page| page.upgrade().inspect(|page| bytes += page.bytes).is_some());
        while bytes > self.max_bytes && self.pages.len() > 1 {
            if let Some(oldest) = self.pages.pop_front().and_then(|page| page.upgrade()) {
                oldest.withdraw();
                bytes -= oldest.bytes;
            }
        }
        page.content().charge = Some(self.budget.charge_shared(page.bytes));
    }
}

/// The body of one response with a page.
struct PageBody {
    page: Arc<Page>,
    next: usize,
    remaining: usize,
    /// Whether other tasks had their turn since the last piece.
    has_yielded: bool,
}

impl PageBody {
    fn new(page: Arc<Page>) -> Self {
        PageBody { next: 0, remaining: page.bytes, has_yielded: true, page }
    }
}

impl Body for PageBody {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        if self.remaining == 0 {
            return Poll::Ready(None);
        }
        if !mem::take(&mut self.has_yielded) {
            self.has_yielded = true;
            // Wakes this task after the network had its turn. A long page at once would delay the decisions on this thread.
            let _ = pin!(yield_now()).poll(context);
            return Poll::Pending;
        }
        let piece = self.page.piece(self.next).ok_or("too many pages wait for slower clients: this one was withdrawn");
        self.next += 1;
        self.remaining = piece.as_ref().map_or(0, |piece| self.remaining - piece.len());
        Poll::Ready(Some(piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::BodyExt;
    use tokio::sync::Semaphore;

    use super::super::tests::demo_app;
    use super::*;

    /// A page whose rendering waits for a permit of the gate.
    struct GatedPage {
        page: SharedPage<&'static str>,
        gate: Arc<Semaphore>,
        /// Tells how often a rendering has begun.
        begun: Arc<AtomicUsize>,
    }

    impl GatedPage {
        fn new(renderer: &PageRenderer) -> Self {
            let (gate, begun) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
            let (render_gate, counter) = (Arc::clone(&gate), Arc::clone(&begun));
            let render = move |_, query: &'static str, mut page: PageWriter| {
                counter.fetch_add(1, Ordering::Relaxed);
                let gate = Arc::clone(&render_gate);
                async move {
                    gate.acquire().await.expect("open").forget();
                    assert_ne!(query, "panic");
                    page.write(query.as_bytes()).await;
                    page
                }
            };
            GatedPage { page: SharedPage::new(renderer, render), gate, begun }
        }

        async fn wait_until_begun(&self, renderings: usize) {
            while self.begun.load(Ordering::Relaxed) < renderings {
                yield_now().await;
            }
        }
    }

    async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
    }

    fn text(page: &Page) -> String {
        String::from_utf8(page.content().pieces.concat()).expect("a text")
    }

    #[tokio::test]
    async fn waiting_requests_share_one_rendering() {
        let gated = GatedPage::new(&PageRenderer::new(&demo_app(), &Handle::current()));
        let mut first = pin!(gated.page.get("a"));
        assert!(poll_once(&mut first).await.is_pending());
        gated.wait_until_begun(1).await;
        let mut later: Vec<_> = (0..100).map(|_| Box::pin(gated.page.get("a"))).collect();
        for request in &mut later {
            assert!(poll_once(request).await.is_pending(), "a rendering that has begun is older than the request");
        }
        gated.gate.add_permits(2);
        let first = first.await.expect("a page");
        let second = later.pop().expect("a request").await.expect("a page");
        assert!(!Arc::ptr_eq(&first, &second));
        for request in later {
            assert!(Arc::ptr_eq(&request.await.expect("a page"), &second));
        }
        assert_eq!(gated.begun.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn each_query_has_its_own_page() {
        let gated = GatedPage::new(&PageRenderer::new(&demo_app(), &Handle::current()));
        gated.gate.add_permits(2);
        let (a, b, also_a) = tokio::join!(gated.page.get("a"), gated.page.get("b"), gated.page.get("a"));
        let (a, b, also_a) = (a.expect("a page"), b.expect("a page"), also_a.expect("a page"));
        assert_eq!((text(&a), text(&b)), ("a".to_owned(), "b".to_owned()));
        assert!(Arc::ptr_eq(&a, &also_a));
    }

    #[tokio::test]
    async fn pages_are_rendered_one_at_a_time() {
        let renderer = PageRenderer::new(&demo_app(), &Handle::current());
        let [one, other] = [(); 2].map(|()| GatedPage::new(&renderer));
        let mut first = pin!(one.page.get("a"));
        assert!(poll_once(&mut first).await.is_pending());
        one.wait_until_begun(1).await;
        let mut second = pin!(other.page.get("b"));
        for _ in 0..100 {
            assert!(poll_once(&mut second).await.is_pending());
            yield_now().await;
        }
        assert_eq!(other.begun.load(Ordering::Relaxed), 0);
        one.gate.add_permits(1);
        other.gate.add_permits(1);
        assert_eq!(
            (text(&first.await.expect("a page")), text(&second.await.expect("a page"))),
            ("a".into(), "b".into())
        );
    }

    #[tokio::test]
    async fn too_many_waiting_requests_are_refused() {
        let gated = GatedPage::new(&PageRenderer::new(&demo_app(), &Handle::current()));
        let mut first = pin!(gated.page.get("a"));
        assert!(poll_once(&mut first).await.is_pending());
        gated.wait_until_begun(1).await;
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(gated.page.get("b"))).collect();
        for request in &mut waiting {
            assert!(poll_once(request).await.is_pending());
        }
        let refused = gated.page.clone().respond("b", ()).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[RETRY_AFTER], "1");
        drop(waiting.pop());
        let mut next = pin!(gated.page.get("b"));
        assert!(poll_once(&mut next).await.is_pending(), "a client that has gone makes room");
        gated.gate.add_permits(2);
        next.await.expect("a page");
    }

    #[tokio::test]
    async fn a_page_without_a_waiting_request_is_not_rendered() {
        let gated = GatedPage::new(&PageRenderer::new(&demo_app(), &Handle::current()));
        let mut first = pin!(gated.page.get("a"));
        assert!(poll_once(&mut first).await.is_pending());
        gated.wait_until_begun(1).await;
        let mut gone = Box::pin(gated.page.get("b"));
        assert!(poll_once(&mut gone).await.is_pending());
        drop(gone);
        gated.gate.add_permits(2);
        first.await.expect("a page");
        assert_eq!(text(&gated.page.get("c").await.expect("a page")), "c");
        assert_eq!(gated.begun.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_panic_fails_only_the_requests_of_its_rendering() {
        let gated = GatedPage::new(&PageRenderer::new(&demo_app(), &Handle::current()));
        gated.gate.add_permits(2);
        let failed = gated.page.clone().respond("panic", ()).await;
        assert_eq!(failed.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(text(&gated.page.get("a").await.expect("a page")), "a");
    }

    #[tokio::test]
    async fn a_page_is_cut_into_pieces() {
        let text: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
        let mut writer = PageWriter::new();
        writer.write(&text).await;
        writer.piece().await.push(b'x');
        let page = finish(async { writer }).await;
        let pieces = &page.content().pieces;
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES), "{pieces:?}");
        assert_eq!(pieces.concat(), [&text[..], b"x"].concat());
    }

    #[tokio::test]
    async fn a_response_yields_between_pieces() {
        let pieces: Vec<Bytes> = [&b"one"[..], b"two", b"three"].map(Bytes::from_static).to_vec();
        let mut body = PageBody::new(Arc::new(Page::new(pieces.clone())));
        for (index, piece) in pieces.iter().enumerate() {
            if index > 0 {
                assert!(poll_once(&mut body.frame()).await.is_pending());
            }
            let Poll::Ready(Some(Ok(frame))) = poll_once(&mut body.frame()).await else { panic!("there is a piece") };
            // The same memory: a piece is never copied.
            assert_eq!(frame.into_data().expect("data").as_ptr(), piece.as_ptr());
        }
        assert!(body.is_end_stream() && body.frame().await.is_none());
    }

    #[tokio::test]
    async fn the_oldest_unread_page_is_withdrawn_and_no_longer_counted() {
        const MAX: usize = 1 << 20;
        let budget = BufferBudget::new(4 * MAX);
        let page = || Arc::new(Page::new(vec![Bytes::from_static(b"read"), vec![0; MAX / 2].into()]));
        let (mut unread, [oldest, middle, newest]) = (UnreadPages::new(&budget), [page(), page(), page()]);
        unread.add(&oldest);
        let mut body = PageBody::new(Arc::clone(&oldest));
        body.frame().await.expect("a piece").expect("not withdrawn yet");
        unread.add(&middle);
        assert!(oldest.content().pieces.is_empty() && !middle.content().pieces.is_empty());
        assert_eq!(budget.used(), middle.bytes);
        body.frame().await.expect("an end").expect_err("the rest is withdrawn");
        assert!(body.frame().await.is_none());
        drop(middle);
        unread.add(&newest);
        assert!(!newest.content().pieces.is_empty());
        assert_eq!(unread.pages.len(), 1, "a page without responses is forgotten");
        assert_eq!(budget.used(), newest.bytes);
    }
}
