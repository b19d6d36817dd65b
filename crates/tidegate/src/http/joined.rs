//! Texts of several pieces.

/// The pieces in a text as long as they are: one with room to spare costs an allocation more where it becomes a body or a
/// header.
#[inline]
pub(super) fn joined<const PIECES: usize>(pieces: [&str; PIECES]) -> String {
    let mut text = String::with_capacity(pieces.iter().map(|piece| piece.len()).sum());
    pieces.into_iter().for_each(|piece| text.push_str(piece));
    text
}
