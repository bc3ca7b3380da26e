/* The browser shell of a WebKit worker: windows without decoration around WebKitGTK's views, told what to do on standard
 * input. */
#pragma once

#include <gtk/gtk.h>
#include <webkit2/webkit2.h>

/* Everything there is one of. */
typedef struct {
  WebKitWebsiteDataManager *data;
  WebKitWebContext *context;
  WebKitSettings *settings;
  WebKitUserContentManager *content; /* of all views */
  char **permissions;                 /* granted to all pages; NULL for none */
  WebKitGeolocationPosition *position; /* where pages are; NULL for nowhere */
  const char *downloads; /* directory, absolute */
  int width;             /* of a page, in pixels, when nobody asks for another size */
  int height;
  GList *views;    /* open views, oldest first */
  gboolean driven; /* a WebDriver session has begun */
  gboolean taken;  /* that session has been given the first view */
  guint ids;       /* given to views so far */
  guint shown;     /* how often a window came to the front */
} Shell;

/* context.c */
void context_open(Shell *shell, const char *home, const char *egress);
gboolean context_replace(Shell *shell, const char *timezone); /* empties the pages; FALSE when there is no such zone */

/* permissions.c */
void permissions_watch(Shell *shell, WebKitWebView *view);
void permissions_watch_place(Shell *shell); /* of a new context */
void permissions_set(Shell *shell, const char *names, const char *latitude, const char *longitude, const char *accuracy);

/* window.c */
WebKitWebView *window_open(Shell *shell, WebKitWebView *related, gboolean as_tab); /* what a driver calls it */
gboolean window_resize_all(Shell *shell);
void window_watch_automation(Shell *shell);

/* pages.c */
typedef enum { PAGE_DONE, PAGE_MISSING, PAGE_NO_ACT } PageDone;
void page_watch(Shell *shell, WebKitWebView *view); /* once the view is in its window */
void page_show_front(const Shell *shell);
char *page_list(const Shell *shell, guint most, glong longest);
PageDone page_act(const Shell *shell, const char *id, const char *act, const char *url);

/* download.c */
void download_watch(Shell *shell);

/* filter.c: answers the command; "rules" is a file to be compiled, and NULL means that the folder has them compiled */
void filter_block(Shell *shell, const char *folder, const char *rules);

/* captchas.c: FALSE when documents are watched already */
gboolean captchas_watch(const Shell *shell, const char *document_script, const char *page_script);
void captchas_reply(guint number, const char *text); /* does nothing when no such message waits */

/* storage.c: each but the first answers the command */
void storage_watch(WebKitWebView *view);
void storage_cookies(const Shell *shell);
void storage_set_cookies(const Shell *shell, const char *cookies);
void storage_origins(const Shell *shell);
void storage_visit(const Shell *shell, const char *origin, const char *script, const char *argument, gboolean in_first);
void storage_ask_first(const Shell *shell, const char *script, const char *argument);
void storage_leave(const Shell *shell);

/* screen.c */
void screen_resize(int width, int height);

/* command.c: a line in, a line out. */
void command_open_answers(void);
void command_listen(Shell *shell);
void command_answer(const char *format, ...) G_GNUC_PRINTF(1, 2);
