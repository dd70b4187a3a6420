"""Other APIs in OpenAI's words: requests on their way in, answers on their way out. Pure."""
