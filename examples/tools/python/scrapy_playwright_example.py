"""scrapy-playwright on Warmpool: scrapy_playwright_example.py PAGE, with WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment."""

import os
import sys

import scrapy
from scrapy.crawler import CrawlerProcess


class Titles(scrapy.Spider):
    name = "titles"
    handler = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
    custom_settings = {
        "DOWNLOAD_HANDLERS": {"http": handler, "https": handler},
        "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
        "PLAYWRIGHT_CDP_URL": f"{os.environ['WARMPOOL_URL']}?token={os.environ['WARMPOOL_SECRET_KEY']}",
        "LOG_LEVEL": "ERROR",
    }

    async def start(self):
        yield scrapy.Request(sys.argv[1], meta={"playwright": True})

    def parse(self, response):
        print("title:", response.css("title::text").get())


process = CrawlerProcess()
process.crawl(Titles)
process.start()
