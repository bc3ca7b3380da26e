//! Pictures that clients attach: inspected before they are decoded, decoded within limits, and re-encoded, so that
//! nothing but the picture is left of them.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use std::io::Cursor;

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageDecoder as _, ImageFormat, ImageReader, Limits};
use warmpool_core::panics::caught;

/// The longer side of a picture that is kept, in pixels: a viewer may open it on all of a large screen.
const SIDE: u32 = 2048;
const QUALITY: u8 = 88;
/// The formats that are decoded.
const FORMATS: [ImageFormat; 3] = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP];

/// Why a picture is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PictureError {
    /// It has another format.
    #[error("is not a PNG, JPEG or WebP picture")]
    Format,
    /// It begins as a picture and is none.
    #[error("is damaged: the picture cannot be decoded")]
    Damaged,
    /// It has too many pixels.
    #[error(
        "has {width} x {height} pixels, and {limit} in all are allowed: send a smaller one, or raise `world.max_pixels`"
    )]
    TooLarge {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
        /// `world.max_pixels`.
        limit: u64,
    },
    /// It would take too much memory.
    #[error(
        "has {width} x {height} pixels, which take {memory} bytes to decode, and {limit} are allowed: send a smaller one, or raise \
         `world.decode_memory`"
    )]
    TooHeavy {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
        /// In bytes.
        memory: u64,
        /// `world.decode_memory`, in bytes.
        limit: u64,
    },
}

/// How large a picture may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct PictureLimits {
    /// `world.max_pixels`.
    pub pixels: u64,
    /// `world.decode_memory`, in bytes.
    pub memory: u64,
}

/// Reads a picture's format and size from its header, which costs next to nothing.
/// Errors: [`PictureError`].
pub(super) fn inspect(bytes: &[u8], limits: PictureLimits) -> Result<(), PictureError> {
    damaged_if_it_panics(|| read_header(bytes, limits))
}

/// Decodes a picture, makes it no larger than a viewer needs, turns it upright, and re-encodes it as JPEG: without any of
/// the data that cameras add, such as place and time. Takes a processor some tens of milliseconds.
/// Errors: [`PictureError`].
pub(super) fn normalise(bytes: &[u8], limits: PictureLimits) -> Result<Bytes, PictureError> {
    damaged_if_it_panics(|| rewrite(bytes, limits))
}

/// Does a decoder's work, whose panic says no more than that the picture is damaged. zune-jpeg 0.5.15 panics at some
/// pictures in passes whose second colour has more samples than the first.
fn damaged_if_it_panics<T>(work: impl FnOnce() -> Result<T, PictureError>) -> Result<T, PictureError> {
    caught(work).unwrap_or(Err(PictureError::Damaged))
}

fn read_header(bytes: &[u8], limits: PictureLimits) -> Result<(), PictureError> {
    let (decoder, format) = decoder(bytes, limits)?;
    let (width, height) = decoder.dimensions();
    if width == 0 || height == 0 {
        return Err(PictureError::Damaged);
    }
    let pixels = u64::from(width) * u64::from(height);
    if pixels > limits.pixels {
        return Err(PictureError::TooLarge { width, height, limit: limits.pixels });
    }
    // What the decoder holds beside the picture: coefficients of two bytes for three channels, or a copy with transparency.
    let beside = match format {
        ImageFormat::Jpeg if !is_baseline(bytes) => 6,
        ImageFormat::WebP => 4,
        _ => 0,
    };
    let memory = decoder.total_bytes().saturating_add(pixels.saturating_mul(beside));
    if memory > limits.memory {
        return Err(PictureError::TooHeavy { width, height, memory, limit: limits.memory });
    }
    Ok(())
}

fn rewrite(bytes: &[u8], limits: PictureLimits) -> Result<Bytes, PictureError> {
    read_header(bytes, limits)?;
    let (mut decoder, _) = decoder(bytes, limits)?;
    let orientation = decoder.orientation().map_err(|_| PictureError::Damaged)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(|_| PictureError::Damaged)?;
    if picture.width().max(picture.height()) > SIDE {
        picture = picture.thumbnail(SIDE, SIDE);
    }
    // Only now: to turn a picture takes its memory again.
    picture.apply_orientation(orientation);
    let mut jpeg = Vec::new();
    let written = on_white(&picture).write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, QUALITY));
    written.map_err(|_| PictureError::Damaged)?;
    Ok(jpeg.into())
}

fn decoder(
    bytes: &[u8],
    limits: PictureLimits,
) -> Result<(impl image::ImageDecoder + use<'_>, ImageFormat), PictureError> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|_| PictureError::Format)?;
    let format = reader.format().filter(|format| FORMATS.contains(format)).ok_or(PictureError::Format)?;
    // For what lies beside the picture, such as a compressed colour profile.
    let mut most = Limits::default();
    most.max_alloc = Some(limits.memory);
    reader.limits(most);
    Ok((reader.into_decoder().map_err(|_| PictureError::Damaged)?, format))
}

/// Whether a JPEG is decoded as it is read. One that comes in passes is held as coefficients until its last one.
fn is_baseline(jpeg: &[u8]) -> bool {
    let mut rest = jpeg.get(2..).unwrap_or_default();
    while let [0xff, marker, tail @ ..] = rest {
        match (marker, tail) {
            (0xff, _) => rest = rest.get(1..).unwrap_or_default(),
            (0xc0, _) => return true,
            (0xc4 | 0xdb | 0xdd | 0xe0..=0xef | 0xfe, [high, low, ..]) => {
                rest = tail.get(usize::from(u16::from_be_bytes([*high, *low]))..).unwrap_or_default();
            }
            // Every other kind of frame, and what is none.
            _ => return false,
        }
    }
    false
}

/// JPEG has no transparency: what shows through is white.
fn on_white(picture: &DynamicImage) -> DynamicImage {
    if !picture.color().has_alpha() {
        return picture.to_rgb8().into();
    }
    let mut flat = picture.to_rgba8();
    for pixel in flat.pixels_mut() {
        let alpha = u32::from(pixel[3]);
        for channel in 0..3 {
            let mixed = (u32::from(pixel[channel]) * alpha + 255 * (255 - alpha)) / 255;
            pixel[channel] = u8::try_from(mixed).unwrap_or(u8::MAX);
        }
    }
    DynamicImage::from(flat).to_rgb8().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{Rgba, RgbaImage};

    fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        let image =
            RgbaImage::from_fn(
                width,
                height,
                |x, _| if x < width / 2 { Rgba([200, 0, 0, 255]) } else { Rgba([0, 0, 0, 0]) },
            );
        let image = DynamicImage::from(image);
        let image = if format == ImageFormat::Jpeg { image.to_rgb8().into() } else { image };
        image.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    fn limits(pixels: u64) -> PictureLimits {
        PictureLimits { pixels, memory: 128 << 20 }
    }

    fn size(bytes: &[u8]) -> (u32, u32) {
        ImageReader::new(Cursor::new(bytes)).with_guessed_format().unwrap().into_dimensions().unwrap()
    }

    #[test]
    fn a_picture_is_written_anew_no_larger_than_needed() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP] {
            let jpeg = normalise(&picture(4096, 1024, format), limits(10_000_000)).unwrap();
            assert_eq!(size(&jpeg), (2048, 512), "{format:?}");
            assert_eq!(image::guess_format(&jpeg).unwrap(), ImageFormat::Jpeg);
        }
        let jpeg = normalise(&picture(100, 50, ImageFormat::Png), limits(10_000_000)).unwrap();
        assert_eq!(size(&jpeg), (100, 50), "a small one stays as it is");
        let flat = image::load_from_memory(&jpeg).unwrap().to_rgb8();
        assert!(flat.get_pixel(90, 25).0.iter().all(|channel| *channel > 245), "what was transparent is white");
    }

    #[test]
    fn what_a_camera_adds_is_gone_and_its_turn_is_made() {
        let plain = picture(40, 20, ImageFormat::Jpeg);
        // An EXIF segment that says: turn a quarter, taken at a secret place.
        let mut tiff = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0".to_vec();
        tiff.extend_from_slice(b"SECRET PLACE");
        let mut exif = plain[..2].to_vec();
        exif.extend_from_slice(&[0xff, 0xe1]);
        exif.extend_from_slice(&u16::try_from(tiff.len() + 2).unwrap().to_be_bytes());
        exif.extend_from_slice(&tiff);
        exif.extend_from_slice(&plain[2..]);
        let jpeg = normalise(&exif, limits(10_000_000)).unwrap();
        assert_eq!(size(&jpeg), (20, 40));
        assert!(!jpeg.windows(6).any(|part| part == b"SECRET") && !jpeg.windows(4).any(|part| part == b"Exif"));
    }

    #[test]
    fn bombs_and_other_formats_are_refused_unopened() {
        let small = picture(64, 64, ImageFormat::Png);
        // The head of a PNG that says it has four billion pixels.
        let mut bomb = small.clone();
        bomb[16..20].copy_from_slice(&65_000u32.to_be_bytes());
        bomb[20..24].copy_from_slice(&65_000u32.to_be_bytes());
        let refused = inspect(&bomb, limits(50_000_000));
        assert!(matches!(refused, Err(PictureError::TooLarge { .. } | PictureError::Damaged)), "{refused:?}");
        assert_eq!(inspect(b"GIF89a\x01\0\x01\0\0\0\0;", limits(50_000_000)), Err(PictureError::Format));
        assert_eq!(
            inspect(b"<svg xmlns='http://www.w3.org/2000/svg'/>", limits(50_000_000)),
            Err(PictureError::Format)
        );
        assert_eq!(inspect(b"", limits(50_000_000)), Err(PictureError::Format));
        let half = &small[..small.len() / 2];
        assert!(normalise(half, limits(50_000_000)).is_err());
        assert!(matches!(
            inspect(&small, limits(64)),
            Err(PictureError::TooLarge { width: 64, height: 64, limit: 64 })
        ));
    }
    #[test]
    fn a_small_file_that_takes_much_memory_is_refused_before_it_is_decoded() {
        let mut png = Cursor::new(Vec::new());
        DynamicImage::new_rgba16(1000, 1000).write_to(&mut png, ImageFormat::Png).unwrap();
        let png = png.into_inner();
        assert!(png.len() < 100_000, "{}", png.len());
        let memory = |memory| PictureLimits { pixels: 1_000_000, memory };
        assert!(normalise(&png, memory(8_000_000)).is_ok());
        let refused = normalise(&png, memory(7_999_999)).unwrap_err();
        let (width, height) = (1000, 1000);
        assert_eq!(refused, PictureError::TooHeavy { width, height, memory: 8_000_000, limit: 7_999_999 });
        assert!(refused.to_string().contains("`world.decode_memory`"), "{refused}");

        // A JPEG in passes takes more than one that is decoded as it is read.
        let mut jpeg = picture(100, 100, ImageFormat::Jpeg);
        assert!(inspect(&jpeg, memory(30_000)).is_ok());
        let frame = jpeg.windows(2).position(|marker| marker == b"\xff\xc0").unwrap();
        jpeg[frame + 1] = 0xc2;
        assert!(matches!(inspect(&jpeg, memory(89_999)), Err(PictureError::TooHeavy { memory: 90_000, .. })));
        let webp = picture(100, 100, ImageFormat::WebP);
        assert!(matches!(inspect(&webp, memory(79_999)), Err(PictureError::TooHeavy { memory: 80_000, .. })));
    }

    #[test]
    fn a_decoder_that_panics_had_a_damaged_picture() {
        assert_eq!(damaged_if_it_panics(|| Ok(7)), Ok(7));
        assert_eq!(damaged_if_it_panics::<()>(|| panic!("as planned")), Err(PictureError::Damaged));
    }

    proptest::proptest! {
        /// Whatever a picture says of itself, what comes out is an error or a picture. Only of a JPEG's decoder panics are known.
        #[test]
        fn a_damaged_picture_is_an_error(at in 0..400usize, byte: u8, cut in 0..400usize, kind in 0..3usize) {
            let mut bytes = picture(16, 16, FORMATS[kind]);
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(bytes.len() - cut % bytes.len());
            let read = if FORMATS[kind] == ImageFormat::Jpeg { normalise } else { rewrite };
            if let Ok(jpeg) = read(&bytes, limits(10_000)) {
                let decoded = image::load_from_memory_with_format(&jpeg, ImageFormat::Jpeg);
                proptest::prop_assert!(decoded.is_ok(), "{decoded:?}");
            }
        }
    }
}
