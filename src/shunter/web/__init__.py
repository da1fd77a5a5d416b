"""Room `web`: the page for people with a browser, and the API for programs that use HTTP.

It has the port and its bounds (`accepting`, `connection`, `connection_limits`, `turns`), the checks of callers and requests
(`identity`, `guards`), the API (`application`, `reading`, `ordering`, `entrance`), events that all open pages share
(`feed`, `hub`), and the page itself (`page_files`, `assets`): plain modules that the browser loads without a build step.

May touch: HTTP. Never: reach into core or drivers, or decide anything.
Imports: `app`, `views`, `formats` (the bodies of orders), `model`, `errors`.
"""
