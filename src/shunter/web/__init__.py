"""Room `web`: what people see in a browser, and what programs ask over HTTP.

The API (`application`, `reading`, `ordering`, `entrance`), who may do what (`identity`, `guards`), events that all open
pages share (`feed`, `hub`), and the page itself (`assets`): plain modules that the browser loads as they are.

May touch: HTTP. Never: reach into core or drivers, or decide anything.
Imports: `app`, `views`, `model`, `errors`.
"""
