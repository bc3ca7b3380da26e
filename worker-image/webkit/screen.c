/* The size of the display, which pages see as their screen. */
#include "shell.h"

#include <X11/extensions/Xrandr.h>
#include <gdk/gdkx.h>

static RRMode mode_of(Display *display, Window root, XRRScreenResources *resources, unsigned width, unsigned height) {
  for (int at = 0; at < resources->nmode; at++) {
    if (resources->modes[at].width == width && resources->modes[at].height == height) {
      return resources->modes[at].id;
    }
  }
  char name[32];
  XRRModeInfo mode = {.width = width, .height = height, .name = name};
  mode.nameLength = (unsigned)g_snprintf(name, sizeof name, "%ux%u", width, height);
  return XRRCreateMode(display, root, &mode);
}

/* Gives the one output of the display that size. A display that cannot change keeps what it has. */
void screen_resize(int width, int height) {
  GdkDisplay *gdk = gdk_display_get_default();
  if (!GDK_IS_X11_DISPLAY(gdk) || width <= 0 || height <= 0) {
    return;
  }
  Display *display = GDK_DISPLAY_XDISPLAY(gdk);
  Window root = DefaultRootWindow(display);
  gdk_x11_display_error_trap_push(gdk);
  XRRScreenResources *resources = XRRGetScreenResources(display, root);
  if (resources && resources->noutput > 0 && resources->ncrtc > 0) {
    RROutput output = resources->outputs[0];
    RRCrtc crtc = resources->crtcs[0];
    RRMode mode = mode_of(display, root, resources, (unsigned)width, (unsigned)height);
    XRRAddOutputMode(display, output, mode);
    /* The screen may not be smaller than what it shows, so it shows nothing meanwhile. */
    XRRSetCrtcConfig(display, resources, crtc, CurrentTime, 0, 0, None, RR_Rotate_0, NULL, 0);
    /* At 96 dots an inch. */
    XRRSetScreenSize(display, root, width, height, (int)(width * 25.4 / 96), (int)(height * 25.4 / 96));
    XRRSetCrtcConfig(display, resources, crtc, CurrentTime, 0, 0, mode, RR_Rotate_0, &output, 1);
  }
  if (resources) {
    XRRFreeScreenResources(resources);
  }
  gdk_display_sync(gdk);
  gdk_x11_display_error_trap_pop_ignored(gdk);
  while (gtk_events_pending()) {
    gtk_main_iteration();
  }
  /* WebKit tells the processes of pages about their screen when a monitor comes or goes, and not when one changes. */
  GdkMonitor *monitor = gdk_display_get_monitor(gdk, 0);
  if (monitor) {
    g_object_ref(monitor);
    g_signal_emit_by_name(gdk, "monitor-removed", monitor);
    g_signal_emit_by_name(gdk, "monitor-added", monitor);
    g_object_unref(monitor);
  }
}
