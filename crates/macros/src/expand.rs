//! Expanding a function with `#[limit]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Block, Error, Expr, ItemFn, Local, LocalInit, Path, Result, ReturnType, Signature, Stmt, Type, TypeParamBound,
    parse_quote, parse2,
};

use crate::arguments::Arguments;

/// Returns the function with a limit check at its start.
pub(crate) fn expand(arguments: &Arguments, item: TokenStream) -> Result<TokenStream> {
    let mut function: ItemFn = parse2(item).map_err(|error| Error::new(error.span(), NOT_A_FUNCTION))?;
    let call = limited_call(arguments);
    if function.sig.asyncness.is_some() {
        let block = &function.block;
        let block = match response_trait(&function.sig)? {
            Some(into_response) => as_response(&call, &into_response, block),
            None => {
                let (check, statements) = (check(&call, &function.sig), &block.stmts);
                parse_quote!({ #check #(#statements)* })
            }
        };
        *function.block = block;
    } else {
        let check = check(&call, &function.sig);
        let Some(body) = boxed_body(&mut function.block) else {
            return Err(Error::new(function.sig.fn_token.span(), NOT_ASYNC));
        };
        let (destructuring, rest): (Vec<_>, Vec<_>) =
            body.stmts.iter().partition(|statement| is_destructuring(statement));
        *body = parse_quote!({ #(#destructuring)* #check #(#rest)* });
    }
    Ok(quote!(#function))
}

/// Generates the call to the limit. It owns its data, so that no argument is borrowed across an await: a handler may
/// have arguments that cannot be shared between threads.
fn limited_call(arguments: &Arguments) -> TokenStream {
    let Arguments { limit, key, cost, limiter, also } = arguments;
    let tuple_key = match strip_parentheses(key) {
        // Each part separately: building the tuple would move the arguments.
        Expr::Tuple(parts) => {
            parts.elems.iter().map(as_key).reduce(|all, part| quote!(::tidegate::Key::join(&#all, &#part)))
        }
        _ => None,
    };
    let key = tuple_key.unwrap_or_else(|| as_key(key));
    let key = quote_spanned!(located_at(key.span())=> ::tidegate::Key::into_owned(#key));
    let cost = cost.iter();
    let limiter = limiter.iter().map(reference_to);
    let also = also.then(|| quote!(.also()));
    quote!(::tidegate::attribute::LimitedCall::new(#limit, #key) #(.cost(#cost))* #(.limiter(#limiter))* #also)
}

/// Strips parentheses and the groups of other macros.
fn strip_parentheses(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(inside) => strip_parentheses(&inside.expr),
        Expr::Group(inside) => strip_parentheses(&inside.expr),
        expression => expression,
    }
}

fn as_key(expression: &Expr) -> TokenStream {
    let expression = reference_to(expression);
    quote_spanned!(located_at(expression.span())=> ::tidegate::attribute::AsKey::as_key(#expression))
}

fn reference_to(expression: &Expr) -> TokenStream {
    quote_spanned!(located_at(expression.span())=> &(#expression))
}

/// Generates the check that returns early with an error.
fn check(call: &TokenStream, signature: &Signature) -> TokenStream {
    // The error points to the return type, because that type must hold the error.
    let span = match &signature.output {
        ReturnType::Default => signature.ident.span(),
        ReturnType::Type(_, output) => output.span(),
    };
    return_early(
        call,
        |limit_error| quote_spanned!(located_at(span)=> ::tidegate::attribute::FromLimitError::from_limit_error(#limit_error)),
    )
}

fn return_early(call: &TokenStream, answer: impl FnOnce(&Ident) -> TokenStream) -> TokenStream {
    let [limited_call, limit_error] = ["limited_call", "limit_error"].map(|name| Ident::new(name, Span::mixed_site()));
    let answer = answer(&limit_error);
    quote! {
        let #limited_call = #call;
        if let ::core::result::Result::Err(#limit_error) = #limited_call.enforce().await {
            return #answer;
        }
    }
}

/// Generates the body of a function that returns `impl IntoResponse`, where error and result must become one type.
fn as_response(call: &TokenStream, into_response: &Path, block: &Block) -> Block {
    let check = return_early(call, |limit_error| quote!(#into_response::into_response(#limit_error)));
    parse_quote!({
        #check
        #into_response::into_response((async move #block).await)
    })
}

/// Returns the trait of a function that returns `impl IntoResponse`.
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

/// Returns the body of a function that `#[async_trait]` has expanded before: `Box::pin(async move { ... })` with
/// nothing in front, which no check would precede.
fn boxed_body(block: &mut Block) -> Option<&mut Block> {
    let [Stmt::Expr(Expr::Call(call), None)] = &mut *block.stmts else { return None };
    let Expr::Path(function) = &*call.func else { return None };
    let is_pin = function.path.segments.last()?.ident == "pin";
    match call.args.first_mut()? {
        Expr::Async(body) if is_pin => Some(&mut body.block),
        _ => None,
    }
}

/// Returns whether a statement is `#[async_trait]`'s destructuring of an argument, such as `let Path(user) = __arg1;`.
/// The key may use its bindings.
fn is_destructuring(statement: &Stmt) -> bool {
    matches!(statement, Stmt::Local(Local { init: Some(LocalInit { expr, .. }), .. }) if is_argument(expr))
}

fn is_argument(expression: &Expr) -> bool {
    match expression {
        Expr::Path(name) => name.path.get_ident().is_some_and(|name| name.to_string().starts_with("__arg")),
        Expr::Block(block) => matches!(block.block.stmts.last(), Some(Stmt::Expr(last, None)) if is_argument(last)),
        _ => false,
    }
}

/// Locates generated code at `span` without counting as written there, because lints are about written code.
fn located_at(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

const NOT_A_FUNCTION: &str = "`#[limit]` goes on an async function with a body";
const NOT_ASYNC: &str = "`#[limit]` waits for an answer, so the function has to be async";
const UNKNOWN_TYPE: &str =
    "an unnamed type cannot hold the error: expected `impl IntoResponse`, a `Result` or a response";
