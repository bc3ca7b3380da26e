/* The browser shell of a WebKit worker: windows without decoration around WebKitGTK's views, told what to do on standard
 * input. */
#pragma once

#include <gtk/gtk.h>
#include <webkit2/webkit2.h>

/* Everything there is one of. */
typedef struct {
  WebKitWebContext *context;
  WebKitSettings *settings;
  const char *downloads; /* directory, absolute */
  int width;             /* of a page, in pixels, when nobody asks for another size */
  int height;
  GList *views;    /* open views, oldest first */
  gboolean driven; /* a WebDriver session has begun */
  gboolean taken;  /* that session has been given the first view */
} Shell;

/* window.c */
WebKitWebView *window_open(Shell *shell, WebKitWebView *related);
gboolean window_resize_all(Shell *shell);
void window_watch_automation(Shell *shell);

/* download.c */
void download_watch(Shell *shell);

/* screen.c */
void screen_resize(int width, int height);

/* command.c: a line in, a line out. */
void command_listen(Shell *shell);
void command_answer(const char *format, ...) G_GNUC_PRINTF(1, 2);
