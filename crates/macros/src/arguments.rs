//! Parsing the arguments of `#[limit]`.

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, ExprUnary, Lit, LitStr, Result, Token, UnOp};

/// Validated arguments of `#[limit]`.
pub(crate) struct Arguments {
    pub(crate) limit: LitStr,
    pub(crate) key: Expr,
    pub(crate) cost: Option<Expr>,
    pub(crate) limiter: Option<Expr>,
    pub(crate) also: bool,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let limit = parse_name(input)?;
        let (mut key, mut cost, mut limiter, mut also) = (None, None, None, None);
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            let argument = input.call(Ident::parse_any)?;
            match argument.to_string().as_str() {
                "key" => set_once(&mut key, &argument, || parse_value(input, &argument))?,
                "cost" => set_once(&mut cost, &argument, || parse_value(input, &argument).and_then(check_cost))?,
                "limiter" => set_once(&mut limiter, &argument, || parse_value(input, &argument))?,
                "also" => set_once(&mut also, &argument, || Ok(()))?,
                _ => {
                    return Err(Error::new(
                        argument.span(),
                        format!("there is no `{argument}` here: {EXPECTED_ARGUMENTS}"),
                    ));
                }
            }
        }
        let key = key.ok_or_else(|| Error::new(limit.span(), MISSING_KEY))?;
        Ok(Arguments { limit, key, cost, limiter, also: also.is_some() })
    }
}

fn parse_name(input: ParseStream<'_>) -> Result<LitStr> {
    if input.is_empty() {
        return Err(Error::new(Span::call_site(), MISSING_NAME));
    }
    let limit: LitStr = input.parse().map_err(|error| Error::new(error.span(), MISSING_NAME))?;
    if limit.value().is_empty() {
        return Err(Error::new(limit.span(), "a limit's name cannot be empty"));
    }
    Ok(limit)
}

fn set_once<T>(slot: &mut Option<T>, argument: &Ident, value: impl FnOnce() -> Result<T>) -> Result<()> {
    if slot.is_some() {
        return Err(Error::new(argument.span(), format!("`{argument}` was given already")));
    }
    *slot = Some(value()?);
    Ok(())
}

fn parse_value(input: ParseStream<'_>, argument: &Ident) -> Result<Expr> {
    if !input.peek(Token![=]) {
        return Err(Error::new(argument.span(), format!("`{argument}` needs a value: `{argument} = ...`")));
    }
    input.parse::<Token![=]>()?;
    input.parse()
}

/// Rejects literals that are not a valid cost.
fn check_cost(cost: Expr) -> Result<Expr> {
    let is_invalid = match &cost {
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), .. }) => true,
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse::<u128>().is_ok_and(|cost| cost == 0),
        _ => false,
    };
    if is_invalid { Err(Error::new(cost.span(), INVALID_COST)) } else { Ok(cost) }
}

const EXPECTED_ARGUMENTS: &str = "expected `key`, `cost`, `limiter` or `also`";
const MISSING_NAME: &str = "which limit? begin with its name in quotes: `#[limit(\"login\", key = user_id)]`";
const MISSING_KEY: &str =
    "who is counted? say it with `key = ...`; one budget for everyone is `key = tidegate::Key::GLOBAL`";
const INVALID_COST: &str = "this is not a cost: expected a whole number, at least 1";
