//! How much a descriptor asks for.

/// How much a descriptor asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hits {
    /// To take as much.
    Take(u64),
    /// To look, and take nothing.
    Look,
    /// To give back as much.
    GiveBack(u64),
}

impl Hits {
    /// What a descriptor says, and else the whole request. There, 0 is nothing said, which is 1.
    pub(crate) fn of(own: Option<u64>, negative: bool, request: u32) -> Self {
        match own.unwrap_or(u64::from(request.max(1))) {
            0 => Hits::Look,
            hits if negative => Hits::GiveBack(hits),
            hits => Hits::Take(hits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_goes_before_the_request_and_0_is_said_only_there() {
        for (own, negative, request, hits) in [
            (None, false, 0, Hits::Take(1)),
            (None, false, 3, Hits::Take(3)),
            (Some(2), false, 3, Hits::Take(2)),
            (Some(0), false, 3, Hits::Look),
            (Some(0), true, 3, Hits::Look),
            (Some(2), true, 3, Hits::GiveBack(2)),
            (None, true, 3, Hits::GiveBack(3)),
        ] {
            assert_eq!(Hits::of(own, negative, request), hits, "{own:?} {negative} {request}");
        }
    }
}
