//! What becomes of the function.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Block, Error, Expr, ItemFn, Local, LocalInit, Path, Result, ReturnType, Signature, Stmt, Type, TypeParamBound,
    parse_quote, parse2,
};

use crate::arguments::Arguments;

/// The function, asking its limit first.
pub(crate) fn expand(arguments: &Arguments, item: TokenStream) -> Result<TokenStream> {
    let mut function: ItemFn = parse2(item).map_err(|error| Error::new(error.span(), NO_FUNCTION))?;
    let ask = ask(arguments);
    if function.sig.asyncness.is_some() {
        let block = &function.block;
        let block = match response_trait(&function.sig)? {
            Some(into_response) => as_response(&ask, &into_response, block),
            None => {
                let (refused, statements) = (refused(&ask, &function.sig), &block.stmts);
                parse_quote!({ #refused #(#statements)* })
            }
        };
        *function.block = block;
    } else {
        let refused = refused(&ask, &function.sig);
        let Some(body) = boxed_body(&mut function.block) else {
            return Err(Error::new(function.sig.fn_token.span(), NOT_ASYNC));
        };
        let (apart, rest): (Vec<_>, Vec<_>) = body.stmts.iter().partition(|statement| takes_apart(statement));
        *body = parse_quote!({ #(#apart)* #refused #(#rest)* });
    }
    Ok(quote!(#function))
}

/// The question. It owns what it needs, so nothing of the arguments is held while the answer is waited for: a handler
/// may get what must not be shared between threads.
fn ask(arguments: &Arguments) -> TokenStream {
    let Arguments { limit, key, cost, limiter, also } = arguments;
    let several = match bare(key) {
        // Each part on its own, or making the tuple would take them away from the function.
        Expr::Tuple(parts) => {
            parts.elems.iter().map(as_key).reduce(|all, part| quote!(::tidegate::Key::and(&#all, &#part)))
        }
        _ => None,
    };
    let key = several.unwrap_or_else(|| as_key(key));
    let key = quote_spanned!(at(key.span())=> ::tidegate::Key::into_owned(#key));
    let cost = cost.iter();
    let limiter = limiter.iter().map(by_reference);
    let also = also.then(|| quote!(.also()));
    quote!(::tidegate::attribute::Ask::new(#limit, #key) #(.cost(#cost))* #(.limiter(#limiter))* #also)
}

/// What is in parentheses, or comes whole from another macro.
fn bare(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(inside) => bare(&inside.expr),
        Expr::Group(inside) => bare(&inside.expr),
        expression => expression,
    }
}

fn as_key(expression: &Expr) -> TokenStream {
    let expression = by_reference(expression);
    quote_spanned!(at(expression.span())=> ::tidegate::attribute::AsKey::as_key(#expression))
}

fn by_reference(expression: &Expr) -> TokenStream {
    quote_spanned!(at(expression.span())=> &(#expression))
}

/// What asks, and leaves the function when it is refused.
fn refused(ask: &TokenStream, signature: &Signature) -> TokenStream {
    // Where the type is, because it is what cannot be made of a refusal if anything cannot.
    let span = match &signature.output {
        ReturnType::Default => signature.ident.span(),
        ReturnType::Type(_, output) => output.span(),
    };
    leave(ask, |refusal| quote_spanned!(at(span)=> ::tidegate::attribute::FromRefusal::from_refusal(#refusal)))
}

fn leave(ask: &TokenStream, answer: impl FnOnce(&Ident) -> TokenStream) -> TokenStream {
    let [asked, refusal] = ["asked", "refusal"].map(|name| Ident::new(name, Span::mixed_site()));
    let answer = answer(&refusal);
    quote! {
        let #asked = #ask;
        if let ::core::result::Result::Err(#refusal) = #asked.enforce().await {
            return #answer;
        }
    }
}

/// The body of a function that returns `impl IntoResponse`, where a refusal and what the function returns have to
/// become the same type.
fn as_response(ask: &TokenStream, into_response: &Path, block: &Block) -> Block {
    let refused = leave(ask, |refusal| quote!(#into_response::into_response(#refusal)));
    parse_quote!({
        #refused
        #into_response::into_response((async move #block).await)
    })
}

/// The trait, for a function that returns `impl IntoResponse`.
fn response_trait(signature: &Signature) -> Result<Option<Path>> {
    let ReturnType::Type(_, output) = &signature.output else { return Ok(None) };
    let Type::ImplTrait(output) = &**output else { return Ok(None) };
    let traits = output.bounds.iter().filter_map(|bound| match bound {
        TypeParamBound::Trait(bound) => Some(&bound.path),
        _ => None,
    });
    let is_response = |path: &&Path| path.segments.last().is_some_and(|last| last.ident == "IntoResponse");
    match traits.into_iter().find(is_response) {
        Some(path) => Ok(Some(path.clone())),
        None => Err(Error::new(output.span(), UNKNOWN_TYPE)),
    }
}

/// The body of what `#[async_trait]`, which is expanded first, has made of an async function:
/// `Box::pin(async move { ... })`, and nothing before it, which nobody would be asked about.
fn boxed_body(block: &mut Block) -> Option<&mut Block> {
    let [Stmt::Expr(Expr::Call(call), None)] = &mut *block.stmts else { return None };
    let Expr::Path(function) = &*call.func else { return None };
    let is_pin = function.path.segments.last()?.ident == "pin";
    match call.args.first_mut()? {
        Expr::Async(body) if is_pin => Some(&mut body.block),
        _ => None,
    }
}

/// Whether a statement is what `#[async_trait]` has made of an argument that is a pattern: `let Path(user) = __arg1;`, or
/// the like. What it binds is what the question is about.
fn takes_apart(statement: &Stmt) -> bool {
    matches!(statement, Stmt::Local(Local { init: Some(LocalInit { expr, .. }), .. }) if is_argument(expr))
}

fn is_argument(expression: &Expr) -> bool {
    match expression {
        Expr::Path(name) => name.path.get_ident().is_some_and(|name| name.to_string().starts_with("__arg")),
        Expr::Block(block) => matches!(block.block.stmts.last(), Some(Stmt::Expr(last, None)) if is_argument(last)),
        _ => false,
    }
}

/// Where `span` is, but not as if it had been written there: lints are about what people write.
fn at(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

const NO_FUNCTION: &str = "`#[limit]` goes on an async function with a body";
const NOT_ASYNC: &str = "`#[limit]` waits for an answer, so the function has to be async";
const UNKNOWN_TYPE: &str =
    "a refusal cannot be made into a type that is not named: expected `impl IntoResponse`, a `Result` or a response";
