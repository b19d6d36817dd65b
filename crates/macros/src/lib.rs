//! The attribute `#[limit]`. Use it through `tidegate`, with its feature `macros`: the code it writes calls that crate.
#![forbid(unsafe_code)]

mod arguments;
mod expand;

use proc_macro::TokenStream;

/// Asks a limit before an async function or a handler begins, and does not begin it when the limit refuses.
///
/// | argument | what it says |
/// | --- | --- |
/// | `"login"` | the name of the limit. First, and always there |
/// | `key = user_id` | who is counted. Always there: nobody shares a budget by accident. `key = Key::GLOBAL` is one budget for everyone. A tuple is a key of several parts |
/// | `cost = (items.len() as u64).max(1)` | how much a call takes: 1 unless said otherwise. 0 is a mistake in the program, which a client must not be able to make |
/// | `limiter = self.limiter` | the limiter to ask. Without: that of the layer above, or else the default |
/// | `also` | counts besides the limit of the layer above and not in its place: for functions that handlers call |
///
/// `key`, `cost` and `limiter` are expressions that see the function's arguments. They are taken by reference, so the
/// arguments are all there afterwards. What is wrong with any of this is an error when it is compiled; whether there is
/// a limit of that name shows when it is asked.
///
/// ```
/// use tidegate::attribute::Refusal;
/// use tidegate::{Limiter, limit};
///
/// struct Mailer {
///     limiter: Limiter,
/// }
///
/// impl Mailer {
///     #[limit("mail", key = (tenant, to), cost = (texts.len() as u64).max(1), limiter = self.limiter)]
///     async fn send(&self, tenant: &str, to: String, texts: Vec<String>) -> Result<(), Refusal> {
///         // Nothing of this happens when there is not enough left.
///         # let _ = (to, texts);
///         Ok(())
///     }
/// }
/// ```
///
/// What a refused call returns, and what happens under a layer, is in `tidegate::attribute`.
#[proc_macro_attribute]
pub fn limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    match syn::parse(arguments).and_then(|arguments| expand::expand(&arguments, item.clone().into())) {
        Ok(limited) => limited.into(),
        // With the function as it is, or everything that uses it would be a mistake, too.
        Err(error) => [TokenStream::from(error.into_compile_error()), item].into_iter().collect(),
    }
}
