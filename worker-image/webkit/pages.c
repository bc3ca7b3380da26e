/* The pages, and a hand's few acts on one of them, for a person who watches. */
#include "shell.h"

#include <string.h>

#define ID "page-id"
#define SHOWN "page-shown"

static GtkWindow *window_of(WebKitWebView *view) { return GTK_WINDOW(gtk_widget_get_toplevel(GTK_WIDGET(view))); }

static guint number_of(gpointer object, const char *name) {
  return GPOINTER_TO_UINT(g_object_get_data(G_OBJECT(object), name));
}

static void set_number(gpointer object, const char *name, guint number) {
  g_object_set_data(G_OBJECT(object), name, GUINT_TO_POINTER(number));
}

/* Whoever has the keyboard was put in front last. */
static void on_active(GtkWindow *window, GParamSpec *property, gpointer data) {
  (void)property;
  Shell *shell = data;
  if (gtk_window_is_active(window)) {
    set_number(window, SHOWN, ++shell->shown);
  }
}

void page_watch(Shell *shell, WebKitWebView *view) {
  set_number(view, ID, ++shell->ids);
  g_signal_connect(window_of(view), "notify::is-active", G_CALLBACK(on_active), shell);
}

/* The page in front: none other's window was given the keyboard later. */
static WebKitWebView *front(const Shell *shell) {
  WebKitWebView *front = NULL;
  for (const GList *at = shell->views; at; at = at->next) {
    if (gtk_widget_get_visible(GTK_WIDGET(window_of(at->data))) &&
        (!front || number_of(window_of(at->data), SHOWN) > number_of(window_of(front), SHOWN))) {
      front = at->data;
    }
  }
  return front;
}

/* There is no window manager to do this when a window has closed. */
void page_show_front(const Shell *shell) {
  WebKitWebView *view = front(shell);
  if (view) {
    gtk_window_present(window_of(view));
  }
}

static void append_text(GString *line, const char *text, glong longest) {
  g_autofree char *whole = g_utf8_make_valid(text ? text : "", -1);
  if (g_utf8_strlen(whole, -1) > longest) {
    *g_utf8_offset_to_pointer(whole, longest) = '\0';
  }
  g_string_append_c(line, '/');
  g_string_append_uri_escaped(line, whole, NULL, FALSE);
}

static void append_page(GString *line, WebKitWebView *view, glong longest) {
  if (line->len > 0) {
    g_string_append_c(line, ' ');
  }
  g_string_append_printf(line, "%u", number_of(view, ID));
  append_text(line, webkit_web_view_get_title(view), longest);
  append_text(line, webkit_web_view_get_uri(view), longest);
}

/* At most "most" pages, the one in front first, as id/title/address, with spaces between them. To be freed. */
char *page_list(const Shell *shell, guint most, glong longest) {
  GString *line = g_string_new(NULL);
  WebKitWebView *first = front(shell);
  guint count = 0;
  if (first && count < most) {
    append_page(line, first, longest);
    count++;
  }
  for (const GList *at = shell->views; at && count < most; at = at->next) {
    if (at->data != first && gtk_widget_get_visible(GTK_WIDGET(window_of(at->data)))) {
      append_page(line, at->data, longest);
      count++;
    }
  }
  return g_string_free(line, FALSE);
}

static WebKitWebView *find(const Shell *shell, const char *id) {
  for (const GList *at = shell->views; at; at = at->next) {
    g_autofree char *own = g_strdup_printf("%u", number_of(at->data, ID));
    if (strcmp(own, id) == 0) {
      return at->data;
    }
  }
  return NULL;
}

PageDone page_act(const Shell *shell, const char *id, const char *act, const char *url) {
  WebKitWebView *view = find(shell, id);
  if (!view) {
    return PAGE_MISSING;
  }
  if (strcmp(act, "show") == 0) {
    gtk_window_present(window_of(view));
  } else if (strcmp(act, "back") == 0) {
    webkit_web_view_go_back(view);
  } else if (strcmp(act, "forward") == 0) {
    webkit_web_view_go_forward(view);
  } else if (strcmp(act, "reload") == 0) {
    webkit_web_view_reload(view);
  } else if (strcmp(act, "open") == 0 && url) {
    webkit_web_view_load_uri(view, url);
  } else {
    return PAGE_NO_ACT;
  }
  return PAGE_DONE;
}
