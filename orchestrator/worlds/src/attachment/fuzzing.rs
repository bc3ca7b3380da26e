//! Pictures for the fuzzer: what comes out is a JPEG within limits, whatever came in.

use std::io::Cursor;

use image::{DynamicImage, ImageFormat, ImageReader, RgbaImage};

use super::{FORMATS, PictureLimits, SIDE, normalise};

const LIMITS: PictureLimits = PictureLimits { pixels: 10_000, memory: 1 << 20 };

/// A picture of each format.
pub fn seeds() -> Vec<Vec<u8>> {
    let written = |format| {
        let picture = DynamicImage::from(RgbaImage::new(7, 5));
        let picture = if format == ImageFormat::Jpeg { picture.to_rgb8().into() } else { picture };
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).ok()?;
        Some(bytes.into_inner())
    };
    FORMATS.into_iter().filter_map(written).collect()
}

/// Panics when something else than a small JPEG comes out.
pub fn check(bytes: &[u8]) {
    let Ok(jpeg) = normalise(bytes, LIMITS) else { return };
    let reader = ImageReader::new(Cursor::new(&jpeg[..])).with_guessed_format().ok();
    assert_eq!(reader.as_ref().and_then(ImageReader::format), Some(ImageFormat::Jpeg));
    let size = reader.and_then(|reader| reader.into_dimensions().ok());
    assert!(size.is_some_and(|(width, height)| width.max(height) <= SIDE && width * height <= 10_000), "{size:?}");
}
