//! Pictures that clients attach: inspected before they are decoded, decoded within limits, and re-encoded, so that
//! nothing but the picture is left of them.

use std::io::Cursor;

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageDecoder as _, ImageFormat, ImageReader};

/// The longer side of a picture in a scene, in pixels: it hangs some metres away.
const SIDE: u32 = 1024;
const QUALITY: u8 = 88;

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
}

/// Reads a picture's format and size from its header, which costs next to nothing.
/// Errors: [`PictureError`].
pub(super) fn inspect(bytes: &[u8], max_pixels: u64) -> Result<(), PictureError> {
    let (width, height) = decoder(bytes)?.dimensions();
    if width == 0 || height == 0 {
        return Err(PictureError::Damaged);
    }
    if u64::from(width) * u64::from(height) > max_pixels {
        return Err(PictureError::TooLarge { width, height, limit: max_pixels });
    }
    Ok(())
}

/// Decodes a picture, turns it upright, makes it no larger than a scene needs, and re-encodes it as JPEG: without any of
/// the data that cameras add, such as place and time. Takes a processor some tens of milliseconds.
/// Errors: [`PictureError`].
pub(super) fn normalise(bytes: &[u8], max_pixels: u64) -> Result<Bytes, PictureError> {
    inspect(bytes, max_pixels)?;
    let mut decoder = decoder(bytes)?;
    let orientation = decoder.orientation().map_err(|_| PictureError::Damaged)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(|_| PictureError::Damaged)?;
    picture.apply_orientation(orientation);
    if picture.width().max(picture.height()) > SIDE {
        picture = picture.thumbnail(SIDE, SIDE);
    }
    let mut jpeg = Vec::new();
    let written = on_white(&picture).write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, QUALITY));
    written.map_err(|_| PictureError::Damaged)?;
    Ok(jpeg.into())
}

fn decoder(bytes: &[u8]) -> Result<impl image::ImageDecoder, PictureError> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|_| PictureError::Format)?;
    if !matches!(reader.format(), Some(ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::WebP)) {
        return Err(PictureError::Format);
    }
    reader.into_decoder().map_err(|_| PictureError::Damaged)
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

    fn size(bytes: &[u8]) -> (u32, u32) {
        ImageReader::new(Cursor::new(bytes)).with_guessed_format().unwrap().into_dimensions().unwrap()
    }

    #[test]
    fn a_picture_is_written_anew_no_larger_than_needed() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP] {
            let jpeg = normalise(&picture(2048, 512, format), 10_000_000).unwrap();
            assert_eq!(size(&jpeg), (1024, 256), "{format:?}");
            assert_eq!(image::guess_format(&jpeg).unwrap(), ImageFormat::Jpeg);
        }
        let jpeg = normalise(&picture(100, 50, ImageFormat::Png), 10_000_000).unwrap();
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
        let jpeg = normalise(&exif, 10_000_000).unwrap();
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
        let refused = inspect(&bomb, 50_000_000);
        assert!(matches!(refused, Err(PictureError::TooLarge { .. } | PictureError::Damaged)), "{refused:?}");
        assert_eq!(inspect(b"GIF89a\x01\0\x01\0\0\0\0;", 50_000_000), Err(PictureError::Format));
        assert_eq!(inspect(b"<svg xmlns='http://www.w3.org/2000/svg'/>", 50_000_000), Err(PictureError::Format));
        assert_eq!(inspect(b"", 50_000_000), Err(PictureError::Format));
        let half = &small[..small.len() / 2];
        assert!(normalise(half, 50_000_000).is_err());
        assert!(matches!(inspect(&small, 64), Err(PictureError::TooLarge { width: 64, height: 64, limit: 64 })));
    }
}
